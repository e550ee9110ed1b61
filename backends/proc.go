package backends

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/engine"
)

// Proc is /proc, for what a queue needs beside its backend. It keeps its descriptor when
// privileges are dropped and the root is changed.
type Proc struct {
	reader *procfs.Reader
	// initial: pids that system calls take are those that the backends report.
	initial bool
}

// initialPIDNamespace is PROC_PID_INIT_INO of linux/proc_ns.h, as /proc shows it.
const initialPIDNamespace = "pid:[4026531836]"

// OpenProc opens /proc.
func OpenProc() (*Proc, error) {
	r, err := procfs.Open()
	if err != nil {
		return nil, err
	}
	own, err := os.Readlink("/proc/self/ns/pid")
	return &Proc{reader: r, initial: err == nil && own == initialPIDNamespace}, nil
}

// Scan reads the processes that exist and calls f with each, parents not necessarily
// before their children. The event is f's until it returns.
func (p *Proc) Scan(f func(*engine.RawEvent) error) error { return p.reader.Scan(f) }

// Look looks whether a process exists, as [engine.Options].Look wants it. A process of
// which only the zombie is left is gone.
func (p *Proc) Look(pid uint32) (start uint64, sight engine.Sight) {
	if !p.initial {
		return 0, engine.SightUnknown
	}
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
