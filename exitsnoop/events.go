package exitsnoop

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"

	"golang.org/x/sys/unix"
)

// Events yields the exit of every process that is traced when it is called, or
// by this Store while it runs, once and as soon as it has ended; those that have
// ended already come first. Exits whose status was lost come as an error, with
// only the TraceID valid, and do not end the iteration. It ends with ctx, with
// Close, or after an error of the kernel, which is yielded.
//
// The events stay: delete each when it was dealt with. Between two runs none is
// missed then. Each traced process takes a descriptor. What other processes
// trace while it runs is not seen.
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
					continue // deleted by someone
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

// result returns how a process that has ended did so.
func (s *Store) result(p watched) (*ExitStatus, error) {
	if err := s.settled(p.id, p.pid); err != nil {
		return nil, of(p.id, err)
	}
	return s.GetExitedEvent(p.id)
}

// watched is a trace that is waited for.
type watched struct {
	id  uint64
	pid uint32
}

// watcher waits for many processes: an epoll descriptor that holds their pidfds.
type watcher struct {
	s     *Store
	epoll int
	poll  *pollable
	// Guarded by s.mu.
	pidfds map[int32]watched
	err    error // why it cannot go on
}

func (s *Store) newWatcher() (*watcher, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make an epoll descriptor: %w", err)
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

// stop makes next return os.ErrClosed; s.mu is held.
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

// watch tells the running Events of a process that is traced from now on.
func (s *Store) watch(p *process, id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watchers {
		fd, err := unix.FcntlInt(uintptr(p.pidfd), unix.F_DUPFD_CLOEXEC, 0)
		if err == nil {
			err = w.add(fd, watched{id, p.pid})
		}
		if err != nil {
			w.err = of(id, fmt.Errorf("wait for its end: %w", err))
			w.poll.SetReadDeadline(past)
		}
	}
}

// add takes a pidfd over; s.mu is held.
func (w *watcher) add(fd int, p watched) error {
	if w.pidfds == nil {
		return unix.Close(fd)
	}
	ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}
	if err := unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
		unix.Close(fd)
		return fmt.Errorf("add a pidfd to epoll: %w", err)
	}
	w.pidfds[int32(fd)] = p
	return nil
}

// begin adds what is traced and returns what has ended.
func (w *watcher) begin() (ended []watched, err error) {
	all, err := w.s.allEvents()
	if err != nil {
		return nil, err
	}
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	known := map[uint64]bool{} // traced while the map was read
	for _, p := range w.pidfds {
		known[p.id] = true
	}
	for id, e := range all {
		if known[id] {
			continue
		}
		p := watched{id, e.Pid}
		if e.State != programsEventStateSTATE_RESERVED {
			ended = append(ended, p)
			continue
		}
		held, err := w.s.traced(id, e.Pid)
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

// next waits for processes to end.
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
