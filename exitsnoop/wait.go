package exitsnoop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/quark-linux/quark/internal/clock"
)

// Wait waits until the process of a trace has ended and returns its status. The event stays. The
// error is ErrNotTraced, ErrLost, ctx.Err(), os.ErrClosed or the kernel's.
//
// It waits for a pidfd, which becomes readable after the program has run. That takes a descriptor
// and no thread. Several processes can wait for the same trace.
func (s *Store) Wait(ctx context.Context, traceID uint64) (*ExitStatus, error) {
	st, err := s.wait(ctx, traceID)
	return st, withTraceID(traceID, err)
}

func (s *Store) wait(ctx context.Context, id uint64) (*ExitStatus, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		e, err := s.event(id)
		if err != nil {
			return nil, err
		}
		if e.State != programsEventStateSTATE_RESERVED {
			return e.status()
		}
		if err := s.waitFor(ctx, id, e.Pid); err != nil {
			return nil, err
		}
	}
}

// waitFor waits until the event may have changed.
func (s *Store) waitFor(ctx context.Context, id uint64, pid uint32) error {
	p, err := s.openTraced(id, pid)
	if errors.Is(err, ErrNoProcess) {
		return s.recordUnseen(id, pid)
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
	return s.recordUnseen(id, pid)
}

// openTraced returns the process of a trace, or ErrNoProcess if it has ended.
func (s *Store) openTraced(id uint64, pid uint32) (*process, error) {
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
	from, to, err := p.start(s.offset)
	switch {
	case p.ended() || err == nil && (from >= t.StartEnd || to <= t.StartMin):
		// It has just ended, or the pid is that of a later process.
		err = ErrNoProcess
	case err == nil:
		return p, nil
	}
	p.close()
	return nil, err
}

// recordUnseen is called when the process of a trace has ended. If the program has not recorded the
// exit by then it never will, so the trace is marked as lost.
func (s *Store) recordUnseen(id uint64, pid uint32) error {
	e, err := s.event(id)
	if err != nil || e.State != programsEventStateSTATE_RESERVED {
		return nil
	}
	t, err := s.task(pid)
	switch {
	case errors.Is(err, ErrNotTraced) || err == nil && t.TraceId != id:
		// A call of Trace may be between reserving the event and adding the tracing entry.
		if clock.Monotonic()-e.StoredTime < uint64(exitTimeout) {
			time.Sleep(exitPollInterval)
			return nil
		}
		lost := programsExitEvent{Pid: pid, StoredTime: clock.Monotonic(), State: programsEventStateSTATE_LOST}
		return errors.Join(s.events.Update(id, &lost, 0), s.count(programsCounterCOUNT_UNSEEN))
	case err != nil:
		return err
	}
	return s.markLost(pid, t)
}

// pollable is a descriptor that the Go runtime's poller waits for.
type pollable struct {
	*os.File
	name   string
	closed atomic.Bool
}

// past is a deadline in the past: it ends a wait at once.
var past = time.Unix(1, 0)

// newPollable returns a pollable that owns a non-blocking descriptor.
func newPollable(fd int, name string) (*pollable, error) {
	f := os.NewFile(uintptr(fd), name)
	if err := f.SetDeadline(time.Time{}); err != nil {
		// The poller does not support this descriptor, so that a wait could not be
		// interrupted.
		return nil, fmt.Errorf("wait for %s: %w", name, err)
	}
	return &pollable{File: f, name: name}, nil
}

func (p *pollable) close() {
	p.closed.Store(true)
	p.File.Close()
}

// wait returns nil when ready returns true. It calls ready once, and again each time the descriptor
// becomes readable. After close it returns os.ErrClosed.
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
