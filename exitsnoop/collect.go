package exitsnoop

import (
	"errors"
	"time"

	"github.com/cilium/ebpf"

	"github.com/quark-linux/quark/internal/clock"
)

// Collected counts what a collection did.
type Collected struct {
	Deleted int // events deleted
	Lost    int // traces whose process had ended without a record; they are ErrLost now
}

// Collect marks as lost the traces of processes that ended while the program did not run, and
// deletes the events that were recorded longer ago than maxAge, not counting the time the machine
// was suspended; 0 keeps events of any age.
func (s *Store) Collect(maxAge time.Duration) (done Collected, err error) {
	if done.Lost, err = s.sweep(); err != nil {
		return done, err
	}
	all, err := s.allEvents()
	if err != nil || maxAge <= 0 {
		return done, err
	}
	now := clock.Monotonic()
	for id, e := range all {
		if e.State == programsEventStateSTATE_RESERVED || e.StoredTime+uint64(maxAge) >= now {
			continue
		}
		err := s.DeleteExitedEvent(id)
		switch {
		case err == nil:
			done.Deleted++
		case !errors.Is(err, ebpf.ErrKeyNotExist): // else it was deleted meanwhile
			return done, err
		}
	}
	return done, nil
}

// sweep marks as lost the traces whose process has ended without a record, and deletes the tracing
// entries of recorded exits.
func (s *Store) sweep() (lost int, err error) {
	events, err := s.allEvents()
	if err != nil {
		return 0, err
	}
	for id, e := range events {
		if e.State != programsEventStateSTATE_RESERVED {
			if t, err := s.task(e.Pid); err == nil && t.TraceId == id {
				s.deleteTask(e.Pid)
			}
			continue
		}
		p, err := s.openTraced(id, e.Pid)
		if err == nil {
			p.close()
			continue
		}
		if !errors.Is(err, ErrNoProcess) {
			return lost, err
		}
		if err := s.recordUnseen(id, e.Pid); err != nil {
			return lost, err
		}
		if e, err := s.event(id); err == nil && e.State == programsEventStateSTATE_LOST {
			lost++
		}
	}
	return lost, nil
}
