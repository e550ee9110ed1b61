package exitsnoop

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
)

// Task is a traced process.
type Task struct {
	Pid uint32
	TaskInfo
	Membership
}

// Tasks returns the traced processes, ordered by pid.
func (s *Store) Tasks() (list []Task, err error) {
	all, err1 := s.allTasks()
	members, err2 := s.allMembers()
	for pid, t := range all {
		list = append(list, Task{pid, *t.info(), members[t.TraceId].place()})
	}
	slices.SortFunc(list, func(a, b Task) int { return cmp.Compare(a.Pid, b.Pid) })
	return list, errors.Join(err1, err2)
}

// ExitedEvents returns the recorded exits that were not deleted, ordered by time. For lost ones see
// [Store.LostTraces].
func (s *Store) ExitedEvents() (list []Exit, err error) {
	all, err1 := s.allEvents()
	members, err2 := s.allMembers()
	for id, e := range all {
		if st, err := e.status(); err == nil {
			list = append(list, Exit{id, members[id].place(), *st})
		}
	}
	slices.SortFunc(list, func(a, b Exit) int {
		return cmp.Or(cmp.Compare(a.ExittedTime, b.ExittedTime), cmp.Compare(a.TraceID, b.TraceID))
	})
	return list, errors.Join(err1, err2)
}

// LostTraces returns the ids of traces that were not deleted and ended without a record, ordered by
// id.
func (s *Store) LostTraces() (list []uint64, err error) {
	all, err := s.allEvents()
	for id, e := range all {
		if e.State == programsEventStateSTATE_LOST {
			list = append(list, id)
		}
	}
	slices.Sort(list)
	return list, err
}

func (s *Store) allTasks() (map[uint32]programsTask, error) {
	return collect[uint32, programsTask](s.tasks, "traced processes")
}

func (s *Store) allEvents() (map[uint64]programsExitEvent, error) {
	return collect[uint64, programsExitEvent](s.events, "exits")
}

func (s *Store) allMembers() (map[uint64]programsMember, error) {
	return collect[uint64, programsMember](s.members, "members of trees")
}

func (m programsMember) place() Membership { return Membership{m.Tree, m.Parent} }

// collect reads a whole map in batches of buckets. Concurrent changes do not make it skip or repeat
// a bucket.
func collect[K comparable, V any](m table, what string) (map[K]V, error) {
	keys, values := make([]K, m.MaxEntries()), make([]V, m.MaxEntries())
	all := map[K]V{}
	for cursor := new(ebpf.MapBatchCursor); ; {
		n, err := m.BatchLookup(cursor, keys, values)
		for i := range n {
			all[keys[i]] = values[i]
		}
		switch {
		case errors.Is(err, ebpf.ErrKeyNotExist): // the end
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("read the %s: %w", what, err)
		}
	}
}
