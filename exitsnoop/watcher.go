package exitsnoop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/wait"
)

// watcher waits for the ends of many processes, with one epoll descriptor of their pidfds.
type watcher struct {
	s     *Store
	ids   []uint64 // watched, with their trees; nil for all
	epoll int
	poll  *os.File // the epoll descriptor, which the Go runtime's poller waits for
	forks uint64   // the counter of descendants before the last scan

	// The rest is guarded by s.mu.
	pidfds map[int32]watched
	told   map[uint64]bool // the traces that were added: true if next has returned their end
	ended  []watched       // for next
	trees  bool            // a tree is watched
	woken  bool
	err    error // ends the iteration
}

// watched is a trace that is waited for.
type watched struct {
	id  uint64
	pid uint32
}

// forkPollInterval is how often a watcher looks for new processes of trees.
const forkPollInterval = 50 * time.Millisecond

// past is a deadline in the past: it ends a wait at once.
var past = time.Unix(1, 0)

func (s *Store) newWatcher(ids ...uint64) (*watcher, error) {
	fd, err := wait.Epoll()
	if err != nil {
		return nil, err
	}
	unix.SetNonblock(fd, true)
	poll := os.NewFile(uintptr(fd), "pidfds")
	if err := poll.SetDeadline(time.Time{}); err != nil {
		// The poller does not support it, so that a wait could not be interrupted.
		poll.Close()
		return nil, fmt.Errorf("wait for pidfds: %w", err)
	}
	w := &watcher{s: s, ids: ids, epoll: fd, poll: poll, pidfds: map[int32]watched{}, told: map[uint64]bool{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		poll.Close()
		return nil, os.ErrClosed
	}
	s.watchers[w] = true
	return w, nil
}

func (w *watcher) close() {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	delete(w.s.watchers, w)
	w.poll.Close()
	for fd := range w.pidfds {
		unix.Close(int(fd))
	}
	w.pidfds = nil
}

// wake ends a wait. The caller holds s.mu.
func (w *watcher) wake() {
	w.woken = true
	w.poll.SetReadDeadline(past)
}

// watchNew adds a newly traced process to the running watchers.
func (s *Store) watchNew(id uint64, pid uint32, m *programsMember) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watchers {
		if w.wants(id, m) {
			delete(w.told, id) // it is that of an earlier trace, if any
			if err := w.addLocked(id, pid); err != nil {
				w.err = withTraceID(id, fmt.Errorf("wait for its end: %w", err))
			}
			w.trees = w.trees || m != nil
			w.wake()
		}
	}
}

func (w *watcher) wants(id uint64, m *programsMember) bool {
	return w.ids == nil || slices.Contains(w.ids, id) || m != nil && slices.Contains(w.ids, m.Tree)
}

// add adds a trace, unless it has been added.
func (w *watcher) add(id uint64, pid uint32) error {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	return w.addLocked(id, pid)
}

func (w *watcher) addLocked(id uint64, pid uint32) error {
	if w.s.closed { // the number w.epoll may be that of another descriptor by now
		return os.ErrClosed
	}
	if _, added := w.told[id]; added || w.pidfds == nil {
		return nil
	}
	p, err := w.s.openTraced(id, pid)
	switch {
	case errors.Is(err, ErrNoProcess):
		w.ended = append(w.ended, watched{id, pid})
	case err != nil:
		return err
	default:
		if err := wait.Add(w.epoll, p.pidfd); err != nil {
			p.close()
			return err
		}
		w.pidfds[int32(p.pidfd)] = watched{id, pid}
	}
	w.told[id] = false
	return nil
}

// scan adds the traces that the store has, except for those that were added before.
func (w *watcher) scan() error {
	s := w.s
	// Before the maps are read, so that the next scan finds what this one misses.
	var err error
	if w.forks, err = s.forks(); err != nil {
		return err
	}
	events, err1 := s.allEvents()
	members, err2 := s.allMembers()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, told := range w.told {
		if _, there := events[id]; told && !there {
			delete(w.told, id) // its event was deleted, and the id can be used again
		}
	}
	for id, e := range events {
		var m *programsMember
		if of, is := members[id]; is {
			m = &of
		}
		if !w.wants(id, m) {
			continue
		}
		w.trees = w.trees || m != nil
		if err := w.addLocked(id, e.Pid); err != nil {
			return err
		}
	}
	return nil
}

// forks returns the number of descendants that the program has traced.
func (s *Store) forks() (uint64, error) {
	return counted(s.treeCounters, uint32(programsTreeCounterCOUNT_DESCENDANTS))
}

// next waits until a process has ended, and returns the event of its trace. The error is ctx.Err(),
// os.ErrClosed, the kernel's, or io.EOF if there are ids and none is left to wait for.
func (w *watcher) next(ctx context.Context) (id uint64, e *programsExitEvent, err error) {
	defer context.AfterFunc(ctx, func() {
		w.s.mu.Lock()
		defer w.s.mu.Unlock()
		w.wake()
	})()
	for {
		if err := ctx.Err(); err != nil {
			return 0, nil, err
		}
		p, err := w.pop()
		switch {
		case err != nil:
			return 0, nil, err
		case p == nil:
			err = w.wait()
		default:
			e, err = w.eventOf(p)
		}
		if e != nil {
			return p.id, e, nil
		}
		if err != nil {
			return 0, nil, err
		}
	}
}

// pop takes a process that has ended, nil if there is none.
func (w *watcher) pop() (p *watched, err error) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	switch {
	case w.s.closed:
		return nil, os.ErrClosed
	case w.err != nil:
		return nil, w.err
	case len(w.ended) > 0:
		p, w.ended = &w.ended[0], w.ended[1:]
	}
	return p, nil
}

// eventOf returns the event of a process that has ended, nil if it was deleted or is not to be had
// yet.
func (w *watcher) eventOf(p *watched) (*programsExitEvent, error) {
	if err := w.s.recordUnseen(p.id, p.pid); err != nil {
		return nil, withTraceID(p.id, err)
	}
	e, err := w.s.event(p.id)
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	w.told[p.id] = true
	switch {
	case errors.Is(err, ErrNotTraced):
		return nil, nil
	case err != nil:
		return nil, withTraceID(p.id, err)
	case e.State == programsEventStateSTATE_RESERVED: // Trace has just begun, see recordUnseen
		delete(w.told, p.id)
		return nil, w.addLocked(p.id, p.pid)
	}
	return e, nil
}

// wait waits until processes have ended, which it moves to ended, or for wake. Where a tree is
// watched it waits for at most forkPollInterval, and scans if processes were forked. If there are
// ids and none is left to wait for it returns io.EOF.
func (w *watcher) wait() error {
	forks, err := w.s.forks()
	if err != nil {
		return err
	}
	w.s.mu.Lock()
	var limit time.Time
	if w.trees && len(w.pidfds) > 0 {
		limit = time.Now().Add(forkPollInterval)
	}
	w.poll.SetReadDeadline(limit)
	// told has more traces than the store only if events were deleted.
	grown := w.trees && forks != w.forks || len(w.told) > 2*int(w.s.events.MaxEntries())
	woken, left := w.woken, len(w.pidfds)
	w.woken = false
	w.s.mu.Unlock()
	switch {
	case grown:
		return w.scan()
	case woken:
		return nil
	case left == 0 && w.ids != nil:
		return io.EOF
	}
	var events [128]unix.EpollEvent
	var n int
	var failed error
	raw, err := w.poll.SyscallConn()
	if err == nil {
		err = raw.Read(func(uintptr) bool {
			for {
				if n, failed = unix.EpollWait(w.epoll, events[:], 0); failed != unix.EINTR {
					return n != 0
				}
			}
		})
	}
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	switch {
	case w.s.closed:
		return os.ErrClosed
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil
	case errors.Join(err, failed) != nil:
		return fmt.Errorf("wait for pidfds: %w", errors.Join(err, failed))
	}
	for _, ev := range events[:n] {
		w.ended = append(w.ended, w.pidfds[ev.Fd])
		delete(w.pidfds, ev.Fd)
		unix.Close(int(ev.Fd)) // which takes it out of the epoll set
	}
	return nil
}
