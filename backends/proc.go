//go:build linux && (amd64 || arm64)

package backends

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/clock"
)

// proc adds CheckPID to the reader's methods. Scan uses the source's Snapshot if it has one.
type proc struct {
	*procfs.Reader
	source engine.Source
}

// OpenProc opens /proc for use together with a source. environ selects the variables to read.
func OpenProc(src engine.Source, environ *source.Environ) (Proc, error) {
	r, err := procfs.OpenFor(environ)
	if err != nil {
		return nil, err
	}
	if s, ok := src.(interface{ ShareBlocked(*procfs.Reader) }); ok {
		s.ShareBlocked(r)
	}
	return proc{r, src}, nil
}

// Scan calls f for each process, then with an event that has only the time of the end. Scan lists
// the processes until a list has no new process, so it misses only later children of known
// processes.
func (p proc) Scan(f func(*engine.RawEvent) error) error {
	type snapshotter interface {
		Snapshot(*procfs.Reader, func(*engine.RawEvent) error) error
	}
	shown := make(map[uint32]bool)
	show := func(ev *engine.RawEvent) error {
		shown[ev.PID] = true
		return f(ev)
	}
	if s, ok := p.source.(snapshotter); !ok || s.Snapshot(p.Reader, show) != nil {
		if err := p.Reader.Scan(show); err != nil {
			return err
		}
	}
	// An iterator does not show all processes on some kernels: pid 1 can be missing.
	var ev engine.RawEvent
	for range maxLists {
		pids, err := p.PIDs()
		if err != nil {
			return err
		}
		added := len(pids)
		for _, pid := range pids {
			if shown[pid] {
				added--
			} else if p.Describe(pid, &ev) {
				err = errors.Join(err, show(&ev))
			}
		}
		if err != nil {
			return err
		}
		if added == 0 {
			break
		}
	}
	return f(&engine.RawEvent{Time: clock.Monotonic()})
}

// maxLists bounds the number of listings, as new processes may appear all the time.
const maxLists = 20

func (p proc) CheckPID(pid uint32) (start uint64, state engine.PIDState) {
	// kill(2) finds every process. /proc may hide processes of other users.
	if err := unix.Kill(int(pid), 0); errors.Is(err, unix.ESRCH) {
		return 0, engine.PIDGone
	}
	st, start, err := p.Status(pid)
	switch {
	case err != nil:
		return 0, engine.PIDUnknown
	case st.Over():
		return 0, engine.PIDGone
	}
	return start, engine.PIDAlive
}
