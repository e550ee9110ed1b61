package backends

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/engine"
)

// Proc is /proc, for what a queue needs beside its backend. It keeps its descriptor when
// privileges are dropped and the root is changed.
type Proc struct{ reader *procfs.Reader }

// OpenProc opens /proc.
func OpenProc() (*Proc, error) {
	r, err := procfs.Open()
	if err != nil {
		return nil, err
	}
	return &Proc{r}, nil
}

// Scan reads the processes that exist and calls f with each, parents not necessarily
// before their children. The event is f's until it returns.
func (p *Proc) Scan(f func(*engine.RawEvent) error) error { return p.reader.Scan(f) }

// Look looks whether a process exists, as [engine.Options].Look wants it. A process of
// which only the zombie is left is gone.
func (p *Proc) Look(pid uint32) (start uint64, sight engine.Sight) {
	// kill(2) tells of every process, /proc may hide those of others.
	if err := unix.Kill(int(pid), 0); errors.Is(err, unix.ESRCH) {
		return 0, engine.SightGone
	}
	st, start, err := p.reader.Status(pid)
	switch {
	case err != nil:
		return 0, engine.SightUnknown
	case st.Zombie() && st.Threads <= 1:
		return 0, engine.SightGone
	}
	return start, engine.SightAlive
}

// Close closes /proc.
func (p *Proc) Close() error { return p.reader.Close() }
