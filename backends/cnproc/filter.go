package cnproc

import (
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
)

// failuresOnly reports whether only failing exits are wanted. /proc is then read at the exit,
// because there is no earlier event to read it for.
func (s *Source) failuresOnly() bool {
	return s.shared.Kinds == engine.EventExit && s.shared.Exits == source.ExitsNonzero
}

// kernelFilter returns the set of messages that the source needs for the wanted events.
func (s *Source) kernelFilter() (need What) {
	o := &s.shared
	for k, row := range kindRows {
		if o.Reports(engine.Kind(k).Events()) {
			need |= row.what
		}
	}
	if need&(Exit|CoreDump) != 0 {
		// A process has ended when its last thread has; exec leaves one thread. Its status
		// says whether it dumped core.
		need |= Fork | Exec | Exit
	}
	return need
}

// wants reports whether the event of a fact is delivered: the kernel may not filter, or the source
// needs the message itself.
func (s *Source) wants(f *fact) bool {
	switch {
	case f.thread && !s.shared.Threads, !s.shared.Reports(f.kind.Events()):
		return false
	case f.kind == engine.KindExit:
		return !f.known || s.shared.Passes(f.status)
	}
	return true
}
