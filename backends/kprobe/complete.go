package kprobe

import (
	"bytes"

	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/engine"
)

// completer reads from /proc the texts that were too long for the probes. The process must be the
// same. A text in /proc must end with the kernel's text, or, for arguments, begin with it.
// Otherwise the field stays cut.
type completer struct {
	reader *procfs.Reader
	read   engine.RawEvent // reused
}

// completable are the fields that may be too long for the probes.
const completable = engine.Fields(1<<engine.FieldExe | 1<<engine.FieldArgs | 1<<engine.FieldCwd | 1<<engine.FieldCgroup)

// newCompleter returns nil if there is no /proc.
func newCompleter() *completer {
	r, err := procfs.Open()
	if err != nil {
		return nil
	}
	return &completer{reader: r}
}

func (c *completer) close() error {
	if c == nil {
		return nil
	}
	return c.reader.Close()
}

// ShareBlocked lets to count the blocked processes.
func (s *Source) ShareBlocked(to *procfs.Reader) {
	if s.completer != nil {
		s.completer.reader.ShareBlocked(to)
	}
}

// complete replaces the cut fields of ev, and marks them as cached: the process may have changed
// them before they were read. size is the length of the arguments in the process.
func (c *completer) complete(ev *engine.RawEvent, size uint64) {
	want := ev.Task.Truncated & completable
	if c == nil || want == 0 || !ev.Task.Known.Has(engine.FieldStart) {
		return
	}
	o := &c.read
	o.Reset()
	if _, err := c.reader.Read(ev.PID, want|engine.FieldStart.Set(), o); err != nil {
		return
	}
	unit := max(o.Task.StartUnit, 1)
	if !o.Task.Known.Has(engine.FieldStart) || o.Task.Start/unit != ev.Task.Start/unit {
		return
	}
	for _, f := range []engine.Field{engine.FieldExe, engine.FieldCwd, engine.FieldCgroup} {
		if want.Has(f) && longerPath(o.Bytes(f), ev.Bytes(f)) {
			ev.Set(f, o.Bytes(f))
			ev.Task.Truncated &^= f.Set()
			ev.Task.Cached |= f.Set()
		}
	}
	if f := engine.FieldArgs; want.Has(f) {
		whole, start := o.Bytes(f), ev.Bytes(f)
		if bytes.HasPrefix(whole, start) && uint64(len(whole)) <= size {
			ev.Set(f, whole)
			ev.Task.Cached |= f.Set()
			if uint64(len(whole)) == size {
				ev.Task.Truncated &^= f.Set()
			}
		}
	}
}

// longerPath reports whether whole is a path that ends with the components in end.
func longerPath(whole, end []byte) bool {
	n := len(whole) - len(end)
	return n > 0 && len(end) > 0 && whole[0] == '/' && whole[n-1] == '/' && bytes.Equal(whole[n:], end)
}
