package exitsnoop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

// Wait returns how the process of a trace ended, as soon as it has. The error is
// ErrNotTraced, ErrLost, ctx.Err, os.ErrClosed or one of the kernel's. The event stays.
//
// It waits for a pidfd, which the kernel makes readable after the program has
// run, and so costs a descriptor and no thread; several processes can wait for
// the same trace.
func (s *Store) Wait(ctx context.Context, traceID uint64) (*ExitStatus, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, of(traceID, err)
		}
		e, err := s.event(traceID)
		if err != nil {
			return nil, of(traceID, err)
		}
		if e.State != programsEventStateSTATE_RESERVED {
			st, err := e.status()
			if err != nil {
				err = of(traceID, err)
			}
			return st, err
		}
		if err := s.waitFor(ctx, traceID, e.Pid); err != nil {
			return nil, of(traceID, err)
		}
	}
}

// waitFor returns nil when it is worth to look for the event.
func (s *Store) waitFor(ctx context.Context, id uint64, pid uint32) error {
	p, err := s.traced(id, pid)
	if errors.Is(err, ErrNoProcess) {
		return s.settled(id, pid)
	}
	if err != nil {
		return err
	}
	w, err := newPollable(p.pidfd, "pidfd")
	if err != nil {
		p.close()
		return err
	}
	defer w.close()
	defer context.AfterFunc(s.life, w.close)()
	if err := w.wait(ctx, func() bool { return readable(p.pidfd) }); err != nil {
		return err
	}
	return s.settled(id, pid)
}

// traced takes hold of the process of a trace, and returns ErrNoProcess if it
// has ended.
func (s *Store) traced(id uint64, pid uint32) (*process, error) {
	if err := inInitialNamespace(); err != nil {
		return nil, err
	}
	t, err := s.task(pid)
	switch {
	case errors.Is(err, ErrNotTraced) || err == nil && t.TraceId != id:
		return nil, ErrNoProcess
	case err != nil:
		return nil, err
	}
	p, err := openProcess(pid)
	if err != nil {
		return nil, err
	}
	from, to, err := p.start(s.clock)
	switch {
	case p.ended() || err == nil && (from >= t.StartEnd || to <= t.StartMin):
		// Just ended, or the pid is another's: the one that was traced is gone.
		err = ErrNoProcess
	case err == nil:
		return p, nil
	}
	p.close()
	return nil, err
}

// settled is for when the process of a trace has ended. If the program has not
// recorded that it never will: then that is put on record.
func (s *Store) settled(id uint64, pid uint32) error {
	e, err := s.event(id)
	if err != nil || e.State != programsEventStateSTATE_RESERVED {
		return nil
	}
	t, err := s.task(pid)
	switch {
	case errors.Is(err, ErrNotTraced) || err == nil && t.TraceId != id:
		// Trace may be on its way between the two entries.
		if monotonic()-e.StoredTime < uint64(settleFor) {
			time.Sleep(settleStep)
			return nil
		}
		lost := programsExitEvent{Pid: pid, StoredTime: monotonic(), State: programsEventStateSTATE_LOST}
		return errors.Join(s.events.Update(id, &lost, 0), s.count(programsCounterCOUNT_UNSEEN))
	case err != nil:
		return err
	}
	return s.markLost(pid, t)
}

// pollable is a descriptor that the runtime's poller waits for.
type pollable struct {
	*os.File
	name   string
	closed atomic.Bool
}

// past is a deadline that ends a wait at once.
var past = time.Unix(1, 0)

// newPollable takes a non-blocking descriptor over.
func newPollable(fd int, name string) (*pollable, error) {
	f := os.NewFile(uintptr(fd), name)
	if err := f.SetDeadline(time.Time{}); err != nil {
		// Not taken by the poller: then a wait could not be interrupted.
		return nil, fmt.Errorf("wait for %s: %w", name, err)
	}
	return &pollable{File: f, name: name}, nil
}

func (p *pollable) close() {
	p.closed.Store(true)
	p.File.Close()
}

// wait returns nil when ready says so, which is asked once and then each time
// that the descriptor becomes readable. It returns os.ErrClosed after close.
func (p *pollable) wait(ctx context.Context, ready func() bool) error {
	stop := context.AfterFunc(ctx, func() { p.SetReadDeadline(past) })
	defer stop()
	raw, err := p.SyscallConn()
	if err == nil {
		err = raw.Read(func(uintptr) bool { return ready() })
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case p.closed.Load():
		return os.ErrClosed
	}
	return fmt.Errorf("wait for %s: %w", p.name, err)
}
