package exitsnoop

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/wait"
)

// Events yields each exit once, as soon as the process has ended: of the processes that are traced
// when Events is called, and of those that this Store begins to trace while Events runs. Processes
// that have ended already come first. If the status was lost the error is ErrLost and only TraceID
// is valid; the iteration goes on. It ends with ctx, with Close, or after yielding an error of the
// kernel.
//
// Events stay in the store until they are deleted, so delete each after handling it: no exit is
// missed between two runs. Each traced process takes a descriptor. Traces that other processes
// begin while Events runs are not seen.
func (s *Store) Events(ctx context.Context) iter.Seq2[Exit, error] {
	return func(yield func(Exit, error) bool) {
		w, err := s.newWatcher()
		if err != nil {
			yield(Exit{}, err)
			return
		}
		defer w.close()
		todo, err := w.begin()
		for err == nil {
			for _, p := range todo {
				ev := Exit{TraceID: p.id}
				st, e := s.result(p)
				if errors.Is(e, ErrNotTraced) {
					continue // someone else has deleted it
				}
				if st != nil {
					ev.ExitStatus = *st
				}
				if !yield(ev, e) {
					return
				}
			}
			todo, err = w.next(ctx)
		}
		if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, os.ErrClosed) {
			yield(Exit{}, err)
		}
	}
}

// result returns the status of a process that has ended.
func (s *Store) result(p watched) (*ExitStatus, error) {
	if err := s.recordUnseen(p.id, p.pid); err != nil {
		return nil, withTraceID(p.id, err)
	}
	return s.GetExitedEvent(p.id)
}

// watched is a trace that is waited for.
type watched struct {
	id  uint64
	pid uint32
}

// watcher waits for many processes with one epoll descriptor of their pidfds.
type watcher struct {
	s     *Store
	epoll int
	poll  *pollable
	// Guarded by s.mu.
	pidfds map[int32]watched
	err    error // ends the iteration
}

func (s *Store) newWatcher() (*watcher, error) {
	fd, err := wait.Epoll()
	if err != nil {
		return nil, err
	}
	unix.SetNonblock(fd, true)
	poll, err := newPollable(fd, "pidfds")
	if err != nil {
		return nil, err
	}
	w := &watcher{s: s, epoll: fd, poll: poll, pidfds: map[int32]watched{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		poll.close()
		return nil, os.ErrClosed
	}
	s.watchers[w] = true
	return w, nil
}

// stop makes next return os.ErrClosed. The caller holds s.mu.
func (w *watcher) stop() { w.poll.close() }

func (w *watcher) close() {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	delete(w.s.watchers, w)
	w.poll.close()
	for fd := range w.pidfds {
		unix.Close(int(fd))
	}
	w.pidfds = nil
}

// watchNew adds a newly traced process to the running Events.
func (s *Store) watchNew(p *process, id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watchers {
		fd, err := unix.FcntlInt(uintptr(p.pidfd), unix.F_DUPFD_CLOEXEC, 0)
		if err == nil {
			err = w.add(fd, watched{id, p.pid})
		}
		if err != nil {
			w.err = withTraceID(id, fmt.Errorf("wait for its end: %w", err))
			w.poll.SetReadDeadline(past)
		}
	}
}

// add adds a process. The watcher owns the pidfd from then on. The caller holds s.mu.
func (w *watcher) add(fd int, p watched) error {
	if w.poll.closed.Load() { // the number w.epoll may be that of another descriptor by now
		unix.Close(fd)
		return os.ErrClosed
	}
	if err := wait.Add(w.epoll, fd); err != nil {
		unix.Close(fd)
		return err
	}
	w.pidfds[int32(fd)] = p
	return nil
}

// begin adds the processes that are traced now, and returns those that have ended.
func (w *watcher) begin() (ended []watched, err error) {
	all, err := w.s.allEvents()
	if err != nil {
		return nil, err
	}
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	added := map[uint64]bool{} // by watchNew while the map was read
	for _, p := range w.pidfds {
		added[p.id] = true
	}
	for id, e := range all {
		if added[id] {
			continue
		}
		p := watched{id, e.Pid}
		if e.State != programsEventStateSTATE_RESERVED {
			ended = append(ended, p)
			continue
		}
		held, err := w.s.openTraced(id, e.Pid)
		switch {
		case errors.Is(err, ErrNoProcess):
			ended = append(ended, p)
		case err != nil:
			return nil, err
		default:
			if err := w.add(held.pidfd, p); err != nil {
				return nil, err
			}
		}
	}
	return ended, nil
}

// next waits until processes have ended, and returns them.
func (w *watcher) next(ctx context.Context) (ended []watched, err error) {
	var events [128]unix.EpollEvent
	var n int
	var failed error
	err = w.poll.wait(ctx, func() bool {
		for {
			if n, failed = unix.EpollWait(w.epoll, events[:], 0); failed != unix.EINTR {
				return n != 0
			}
		}
	})
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if w.err != nil && ctx.Err() == nil {
		err = w.err
	}
	if err == nil && failed != nil {
		err = fmt.Errorf("wait for pidfds: %w", failed)
	}
	for i := range max(n, 0) {
		fd := events[i].Fd
		ended = append(ended, w.pidfds[fd])
		delete(w.pidfds, fd)
		unix.Close(int(fd)) // which takes it out of the epoll set
	}
	return ended, err
}
