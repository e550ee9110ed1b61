package exitsnoop

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/quark-linux/quark/internal/clock"
)

// The pins of version 0, which is embedshim's pkg/exitsnoop.
const (
	oldTasks  = "tracing_tasks"
	oldEvents = "exited_events"
	oldLink   = "handle_sched_process_exit"
)

var oldNames = []string{oldTasks, oldEvents, oldLink}

// oldTask and oldEvent are the values of its maps, whose keys are pids and trace ids.
type oldTask struct {
	TraceID, Dev, Ino uint64
}

type oldEvent struct {
	Pid       uint32
	ExitCode  int32
	Start     uint64
	ExittedAt uint64
}

// takeOver imports the state of version 0 and removes it. The old program is running until all is
// imported, so that no exit is missed between the two.
func (e *ensurer) takeOver() error {
	tasks, err := openOld(e.pathOf(oldTasks), 4)
	if err != nil {
		return err
	}
	events, err := openOld(e.pathOf(oldEvents), 8)
	if err != nil {
		return err
	}
	s, err := newStore(e.maps, nil)
	if err != nil {
		return err
	}
	defer s.filter.close()
	if tasks != nil {
		defer tasks.Close()
		if err := e.importTasks(s, tasks, events); err != nil {
			return err
		}
	}
	if events != nil {
		defer events.Close()
		if err := e.importEvents(s, events); err != nil {
			return err
		}
	}
	if err := e.o.step("remove version 0"); err != nil {
		return err
	}
	e.undo = nil // all is imported: a later error does not take it back
	// The link is last: while it is there, another call imports what is left.
	l := e.pathOf(oldLink)
	old := []string{e.pathOf(oldTasks), e.pathOf(oldEvents), l}
	if err := unpin(e.dir, []string{l}, func() error { return removeAll(old) }); err != nil {
		return fmt.Errorf("all was taken over, but it cannot be ended: %w", err)
	}
	return nil
}

// openOld opens a map of version 0. It returns nil if there is none.
func openOld(path string, keySize uint32) (*ebpf.Map, error) {
	m, err := ebpf.LoadPinnedMap(path, nil)
	if err != nil {
		return nil, pinError(path, err)
	}
	if m.Type() != ebpf.Hash || m.KeySize() != keySize || m.ValueSize() != 24 {
		err := fmt.Errorf("%s: %w: it is a %s", path, ErrShape, m)
		m.Close()
		return nil, err
	}
	return m, nil
}

// importTasks traces the processes that version 0 traces. One that has ended is in its events; if
// it is not, its status is lost.
func (e *ensurer) importTasks(s *Store, tasks, events *ebpf.Map) error {
	old, err := collect[uint32, oldTask](tasks, "traced processes")
	if err != nil {
		return err
	}
	for pid, t := range old {
		info := TaskInfo{t.TraceID, PidnsInfo{t.Dev, t.Ino}}
		err := s.Trace(pid, &info)
		switch {
		case err == nil:
			e.done.Tasks++
			e.onError(func() error { return ignoreMissing(s.drop(pid, t.TraceID)) })
			continue
		case errors.Is(err, ErrDuplicateID), errors.Is(err, ErrAlreadyTraced):
			continue // an earlier attempt has imported it
		case !errors.Is(err, ErrNoProcess) && !errors.Is(err, ErrNamespace):
			return err
		}
		if events != nil && events.Lookup(t.TraceID, new(oldEvent)) == nil {
			continue
		}
		lost := programsExitEvent{Pid: pid, StoredTime: clock.Monotonic(), State: programsEventStateSTATE_LOST}
		if err := e.importEvent(s, t.TraceID, &lost); err != nil {
			return err
		}
		e.done.Lost++
	}
	return nil
}

func (e *ensurer) importEvents(s *Store, events *ebpf.Map) error {
	old, err := collect[uint64, oldEvent](events, "exits")
	if err != nil {
		return err
	}
	for id, v := range old {
		ev := programsExitEvent{
			Pid: v.Pid, ExitCode: v.ExitCode, StartBoottime: v.Start, ExitedTime: v.ExittedAt,
			StoredTime: clock.Monotonic(), State: programsEventStateSTATE_ENDED,
		}
		if err := e.importEvent(s, id, &ev); err != nil {
			return err
		}
		e.done.Events++
	}
	return nil
}

// importEvent adds an event, unless its id has one.
func (e *ensurer) importEvent(s *Store, id uint64, ev *programsExitEvent) error {
	err := s.reserve(id, ev)
	switch {
	case errors.Is(err, ErrDuplicateID):
		return nil
	case err != nil:
		return withTraceID(id, err)
	}
	e.onError(func() error { return ignoreMissing(s.forget(id)) })
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, ErrNotTraced) {
		return nil
	}
	return err
}
