package exitsnoop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/wait"
)

// watcher waits for the ends of many processes, with an epoll descriptor of their pidfds. One
// goroutine uses a watcher. Other goroutines wake it and add new traces.
type watcher struct {
	s    *Store
	ids  []uint64 // watched, with their trees; nil for all
	poll *os.File // the epoll descriptor, which the Go runtime's poller waits for
	raw  syscall.RawConn

	traces map[uint64]*watched // by id, including those that next has returned
	pidfds map[int32]*watched
	ended  []*watched // for next
	trees  bool       // a tree is watched
	forks  uint64     // the counter of descendants before the last scan

	begun []watched // new traces, for next; guarded by s.mu
}

// watched is a trace with a pending end.
type watched struct {
	id       uint64
	pid      uint32
	tree     uint64 // 0 for none
	returned bool   // next has returned its end
}

// forkPollInterval is the interval at which a watcher looks for new processes of trees.
const forkPollInterval = 50 * time.Millisecond

// past is a deadline in the past, which ends a wait at once.
var past = time.Unix(1, 0)

func (s *Store) newWatcher(ids ...uint64) (*watcher, error) {
	fd, err := wait.NewEpoll()
	if err != nil {
		return nil, err
	}
	unix.SetNonblock(fd, true)
	w := &watcher{s: s, ids: ids, poll: os.NewFile(uintptr(fd), "pidfds"), traces: map[uint64]*watched{}, pidfds: map[int32]*watched{}}
	w.raw, err = w.poll.SyscallConn()
	if err == nil {
		err = w.poll.SetDeadline(time.Time{}) // fails if the poller does not support it
	}
	if err != nil {
		w.poll.Close()
		return nil, fmt.Errorf("wait for pidfds: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		w.poll.Close()
		return nil, os.ErrClosed
	}
	s.watchers[w] = true
	return w, nil
}

func (w *watcher) close() {
	w.s.mu.Lock()
	delete(w.s.watchers, w)
	w.s.mu.Unlock()
	w.poll.Close()
	for fd := range w.pidfds {
		unix.Close(int(fd))
	}
}

// wake ends a wait.
func (w *watcher) wake() { w.poll.SetReadDeadline(past) }

// watchNew adds a new trace to the running watchers.
func (s *Store) watchNew(id uint64, pid uint32, tree uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watchers {
		if w.wants(id, tree) {
			w.begun = append(w.begun, watched{id: id, pid: pid, tree: tree})
			w.wake()
		}
	}
}

func (w *watcher) wants(id, tree uint64) bool {
	return w.ids == nil || slices.Contains(w.ids, id) || tree != 0 && slices.Contains(w.ids, tree)
}

// add adds a trace that was not added before. An earlier trace that has ended may have had the same
// id.
func (w *watcher) add(t watched) error {
	if old := w.traces[t.id]; old != nil && old.pid == t.pid {
		return nil
	}
	p, err := w.s.openTraced(t.id, t.pid)
	switch {
	case errors.Is(err, ErrNoProcess):
		w.ended = append(w.ended, &t)
	case err != nil:
		return err
	default:
		if w.raw.Control(func(fd uintptr) { err = wait.Add(int(fd), p.fd) }) != nil {
			err = os.ErrClosed
		}
		if err != nil {
			p.close()
			return err
		}
		w.pidfds[int32(p.fd)] = &t
	}
	w.traces[t.id] = &t
	w.trees = w.trees || t.tree != 0
	return nil
}

// scan adds the traces in the store that were not added before.
func (w *watcher) scan() error {
	s := w.s
	// The counter is read before the maps, so that the next scan finds the traces that this
	// scan misses.
	var err error
	if w.forks, err = s.forks(); err != nil {
		return err
	}
	events, err1 := s.allEvents()
	members, err2 := s.allMembers()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	for id, t := range w.traces {
		if _, there := events[id]; t.returned && !there {
			delete(w.traces, id) // its event was deleted, and the id can be reused
		}
	}
	for id, e := range events {
		if tree := members[id].Tree; w.wants(id, tree) {
			if err := w.add(watched{id: id, pid: e.Pid, tree: tree}); err != nil {
				return err
			}
		}
	}
	return nil
}

// forks returns the number of descendants that the program has traced.
func (s *Store) forks() (uint64, error) {
	return counted(s.treeCounters, uint32(programsTreeCounterCOUNT_DESCENDANTS))
}

// next waits until a process has ended, and returns the event of its trace. The error is ctx.Err(),
// os.ErrClosed, the kernel's, or io.EOF if there are ids and none is left.
func (w *watcher) next(ctx context.Context) (id uint64, e *programsExitEvent, err error) {
	defer context.AfterFunc(ctx, w.wake)()
	for {
		var limit time.Time
		if w.trees && len(w.pidfds) > 0 {
			limit = time.Now().Add(forkPollInterval)
		}
		// The deadline is set before the checks, so that a wake-up after them still ends
		// the wait.
		w.poll.SetReadDeadline(limit)
		if err := ctx.Err(); err != nil {
			return 0, nil, err
		}
		begun, err := w.takeBegun()
		switch {
		case err != nil:
		case len(begun) > 0:
			err = w.addAll(begun)
		case len(w.ended) > 0:
			t := w.ended[0]
			w.ended = w.ended[1:]
			if e, err = w.eventOf(t); e != nil {
				return t.id, e, nil
			}
		default:
			err = w.wait()
		}
		if err != nil {
			return 0, nil, err
		}
	}
}

// takeBegun returns the new traces since its last call.
func (w *watcher) takeBegun() (begun []watched, err error) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if w.s.closed {
		return nil, os.ErrClosed
	}
	begun, w.begun = w.begun, nil
	return begun, nil
}

func (w *watcher) addAll(begun []watched) error {
	for _, t := range begun {
		if old := w.traces[t.id]; old != nil && old.returned {
			delete(w.traces, t.id)
		}
		if err := w.add(t); err != nil {
			return withTraceID(t.id, fmt.Errorf("wait for the end of the process: %w", err))
		}
	}
	return nil
}

// eventOf returns the event of an ended process, nil if it was deleted or does not exist yet.
func (w *watcher) eventOf(t *watched) (*programsExitEvent, error) {
	if err := w.s.recordUnseen(t.id, t.pid); err != nil {
		return nil, withTraceID(t.id, err)
	}
	t.returned = true
	e, err := w.s.event(t.id)
	switch {
	case errors.Is(err, ErrNotTraced), err == nil && e.Pid != t.pid:
		return nil, nil
	case err != nil:
		return nil, withTraceID(t.id, err)
	case e.State == programsEventStateSTATE_RESERVED: // Trace has just begun, see recordUnseen
		delete(w.traces, t.id)
		return nil, w.add(watched{id: t.id, pid: t.pid, tree: t.tree})
	}
	return e, nil
}

// wait waits until processes have ended, or for wake. It adds the ended processes to w.ended. If a
// process of a tree has forked, wait scans instead. If w has ids and no process is left, wait
// returns io.EOF.
func (w *watcher) wait() error {
	forks, err := w.s.forks()
	switch {
	case err != nil:
		return err
	case w.trees && forks != w.forks, len(w.traces) > 2*int(w.s.events.MaxEntries()):
		// More traces than the store has room for mean that events were deleted.
		return w.scan()
	case len(w.pidfds) == 0 && w.ids != nil:
		return io.EOF
	}
	var events [128]unix.EpollEvent
	var n int
	closed := w.raw.Read(func(fd uintptr) bool {
		n, err = unix.EpollWait(int(fd), events[:], 0)
		return n != 0
	})
	switch {
	case errors.Is(closed, os.ErrDeadlineExceeded):
		return nil
	case closed != nil:
		return os.ErrClosed
	case err != nil:
		return fmt.Errorf("wait for pidfds: %w", err)
	}
	for _, ev := range events[:n] {
		w.ended = append(w.ended, w.pidfds[ev.Fd])
		delete(w.pidfds, ev.Fd)
		unix.Close(int(ev.Fd)) // this removes it from the epoll set
	}
	return nil
}
