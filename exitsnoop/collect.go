package exitsnoop

import (
	"errors"
	"time"

	"github.com/cilium/ebpf"

	"github.com/quark-linux/quark/internal/clock"
)

// Collected counts the results of a collection.
type Collected struct {
	Deleted int // deleted events
	Lost    int // traces of processes that ended without a record; they are ErrLost now
}

// Collect marks traces as lost if their process ended while the program did not run. It deletes
// events that were recorded longer ago than maxAge, not counting suspended time; 0 keeps events of
// any age.
func (s *Store) Collect(maxAge time.Duration) (done Collected, err error) {
	if done.Lost, err = s.sweepLost(); err != nil {
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

// sweepLost marks traces as lost if their process ended without a record, and deletes the tracing
// entries of recorded exits.
func (s *Store) sweepLost() (lost int, err error) {
	events, err := s.allEvents()
	if err != nil {
		return 0, err
	}
	for id, e := range events {
		if e.State != programsEventStateSTATE_RESERVED {
			s.deleteTraced(e.Pid, id)
			continue
		}
		p, err := s.openTraced(id, e.Pid)
		switch {
		case err == nil:
			p.close()
			continue
		case errors.Is(err, errBlocked):
			continue // the process still runs
		case !errors.Is(err, ErrNoProcess):
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
