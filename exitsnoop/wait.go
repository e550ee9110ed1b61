package exitsnoop

import (
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"time"

	"github.com/quark-linux/quark/internal/clock"
)

// Wait waits until the process of a trace has ended and returns its status. The event stays. The
// error is ErrNotTraced, ErrLost, ctx.Err(), os.ErrClosed or the kernel's.
//
// Wait uses a pidfd, which becomes readable after the program has run. It needs two descriptors and
// no thread. Several processes can wait for the same trace.
func (s *Store) Wait(ctx context.Context, traceID uint64) (*ExitStatus, error) {
	st, err := s.wait(ctx, traceID)
	return st, withTraceID(traceID, err)
}

func (s *Store) wait(ctx context.Context, id uint64) (*ExitStatus, error) {
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
	w, err := s.newWatcher(id)
	if err != nil {
		return nil, err
	}
	defer w.close()
	if err := w.add(watched{id: id, pid: e.Pid}); err != nil {
		return nil, err
	}
	for {
		got, e, err := w.next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return nil, ErrNotTraced // another caller has deleted the event
		case err != nil:
			return nil, err
		case got == id: // not a descendant
			return e.status()
		}
	}
}

// Events yields each exit once, as soon as the process has ended. It covers the processes that are
// traced when it is called, new descendants of their trees, and processes that this Store begins to
// trace while it runs. Processes that end within a short time may be yielded in any order. If the
// status was lost the error is ErrLost and only the pid, the trace id and the membership are valid;
// the iteration continues. It ends without an error when ctx ends or the store is closed. It also
// ends after an error of the kernel.
//
// With trace ids it yields only the exits of these and of their trees, and ends after the last of
// them.
//
// Events stay in the store until they are deleted, so delete each after handling it: no exit is
// missed between two runs. Each traced process takes a descriptor. A descendant that ends within 50
// ms of its birth may be yielded that much later. Events misses traces that other processes begin
// while it runs.
func (s *Store) Events(ctx context.Context, traceIDs ...uint64) iter.Seq2[Exit, error] {
	return func(yield func(Exit, error) bool) {
		if err := s.yieldEvents(ctx, traceIDs, yield); err != nil {
			yield(Exit{}, err)
		}
	}
}

// yieldEvents returns the error that ends the iteration, nil if there is none to yield.
func (s *Store) yieldEvents(ctx context.Context, ids []uint64, yield func(Exit, error) bool) error {
	w, err := s.newWatcher(ids...)
	if err == nil {
		defer w.close()
		err = w.scan()
	}
	for err == nil {
		var id uint64
		var e *programsExitEvent
		if id, e, err = w.next(ctx); err != nil {
			break
		}
		ev := Exit{TraceID: id, ExitStatus: ExitStatus{Pid: e.Pid}}
		if ev.Membership, err = s.membership(id); err != nil {
			break
		}
		st, lost := e.status()
		if st != nil {
			ev.ExitStatus = *st
		}
		if !yield(ev, withTraceID(id, lost)) {
			return nil
		}
	}
	for _, ending := range []error{io.EOF, context.Canceled, context.DeadlineExceeded, os.ErrClosed} {
		if errors.Is(err, ending) {
			return nil
		}
	}
	return err
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
	from, to, err := p.start()
	switch {
	case p.ended() || err == nil && (from >= t.StartEnd || to <= t.StartMin):
		// The process has just ended, or the pid was reused.
		err = ErrNoProcess
	case err == nil:
		return p, nil
	}
	p.close()
	return nil, err
}

// recordUnseen is called when the process of a trace has ended. If the program has not recorded the
// exit by then, it never will: recordUnseen marks the trace as lost.
func (s *Store) recordUnseen(id uint64, pid uint32) error {
	e, err := s.event(id)
	if err != nil || e.State != programsEventStateSTATE_RESERVED || e.Pid != pid {
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
