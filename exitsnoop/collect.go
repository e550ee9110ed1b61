package exitsnoop

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/cilium/ebpf"
)

// Collection says which events [Store.Collect] deletes. The zero value deletes none.
type Collection struct {
	// MaxAge deletes events that are older, by the time since the exit was
	// recorded, without the time the machine was suspended. 0 means any age is kept.
	MaxAge time.Duration

	// MaxCount deletes the oldest events beyond that number. 0 means any number is kept.
	MaxCount int
}

// Collected is what a collection did.
type Collected struct {
	Deleted int // events that nobody had deleted
	Lost    int // traces found whose process had ended unrecorded; they are ErrLost now
}

// Collect deletes events that nobody collects, and finds the traces of processes
// that ended while the program did not run.
func (s *Store) Collect(c Collection) (Collected, error) {
	var done Collected
	var err error
	if done.Lost, err = s.sweep(); err != nil {
		return done, err
	}
	all, err := s.allEvents()
	if err != nil {
		return done, err
	}
	type aged struct{ id, stored uint64 }
	var list []aged
	for id, e := range all {
		if e.State != programsEventStateSTATE_RESERVED {
			list = append(list, aged{id, e.StoredTime})
		}
	}
	slices.SortFunc(list, func(a, b aged) int { return cmp.Compare(a.stored, b.stored) })
	now := monotonic()
	for i, e := range list {
		old := c.MaxAge > 0 && e.stored+uint64(c.MaxAge) < now
		many := c.MaxCount > 0 && len(list)-i > c.MaxCount
		if !old && !many {
			break
		}
		err := s.DeleteExitedEvent(e.id)
		switch {
		case err == nil:
			done.Deleted++
		case !errors.Is(err, ebpf.ErrKeyNotExist): // else someone else was faster
			return done, err
		}
	}
	return done, nil
}

// sweep puts on record which processes have ended unrecorded, and deletes
// tracing entries whose exit is on record already.
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
		p, err := s.traced(id, e.Pid)
		if err == nil {
			p.close()
			continue
		}
		if !errors.Is(err, ErrNoProcess) {
			return lost, err
		}
		if err := s.settled(id, e.Pid); err != nil {
			return lost, err
		}
		if e, err := s.event(id); err == nil && e.State == programsEventStateSTATE_LOST {
			lost++
		}
	}
	return lost, nil
}
