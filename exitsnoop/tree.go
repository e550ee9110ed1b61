package exitsnoop

import (
	"errors"
	"path/filepath"

	"github.com/cilium/ebpf"

	"github.com/quark-linux/quark/internal/proctext"
)

// TreeOptions are options of [Store.TraceTree].
type TreeOptions struct {
	// TaskInfo is for the first process. A TraceID of 0 means a random one.
	TaskInfo

	// Existing also traces descendants that exist already.
	Existing bool
}

// Membership is the place of a process in a tree. It is zero outside of trees.
type Membership struct {
	// Tree is the trace id of the process with which TraceTree was called.
	Tree uint64
	// Parent is the trace id of the process that forked this one, 0 for the first of a tree.
	Parent uint64
}

// TraceTree begins to trace a process as [Store.Trace] does, and returns its trace id. From then on
// every descendant is traced before it can run, also after the process has ended. Descendants have
// random trace ids, and the first one's id in their [Membership]. A descendant without room runs
// untraced, as do its own descendants; Stats.Untraced counts it.
//
// With o.Existing TraceTree also traces the descendants that it finds in /proc. It misses a process
// whose parent has ended. If it cannot trace a descendant, it returns both the trace id and an
// error.
func (s *Store) TraceTree(pid uint32, o TreeOptions) (traceID uint64, err error) {
	trace := func(id uint64) error {
		o.TraceID = id
		return withPID(pid, s.trace(pid, o.TaskInfo, &programsMember{Tree: id}, 0))
	}
	if traceID = o.TraceID; traceID != 0 {
		err = trace(traceID)
	} else {
		traceID, err = withRandomID(trace)
	}
	if err != nil {
		return 0, err
	}
	if o.Existing {
		err = s.traceExisting(traceID)
	}
	return traceID, err
}

// maxBlocked is the number of processes that may block a read before traceExisting ends.
const maxBlocked = 8

// traceExisting traces the children of a tree's members, or of all trees if tree is 0, until all
// are traced. The program traces children that are forked meanwhile. traceExisting skips processes
// that block a read, and returns their errors at the end.
func (s *Store) traceExisting(tree uint64) error {
	blocked, errs := make(map[string]bool), []error(nil)
	for found := true; found; {
		found = false
		paths, err := filepath.Glob("/proc/[0-9]*/stat")
		if err != nil {
			return err
		}
		for _, path := range paths {
			if blocked[path] {
				continue
			}
			traced := false
			p, err := readStat(path)
			if err == nil {
				pid, _ := proctext.Uint32([]byte(filepath.Base(filepath.Dir(path))))
				traced, err = s.traceChild(pid, &p, tree)
				err = withPID(pid, err)
			} else {
				err = unlessGone(err)
			}
			switch {
			case errors.Is(err, errBlocked) && len(blocked) < maxBlocked:
				blocked[path], errs = true, append(errs, err)
			case err != nil:
				return err
			}
			found = found || traced
		}
	}
	return errors.Join(errs...)
}

// traceChild traces a process that is not a member of the tree, but whose parent is. It reports
// whether it traced the process.
func (s *Store) traceChild(pid uint32, p *proctext.Stat, tree uint64) (bool, error) {
	parent, member, err := s.memberOf(p.PPID)
	if err != nil || tree != 0 && member.Tree != tree {
		return false, ignoreMissing(err)
	}
	if _, _, err := s.memberOf(pid); err == nil {
		return false, nil
	}
	// If the parent still runs, no other process had its pid.
	held, err := s.openTraced(parent.TraceId, p.PPID)
	if err == nil {
		held.close()
		member.Parent, member.Untraced = parent.TraceId, 0
		_, err = withRandomID(func(id uint64) error { return s.trace(pid, TaskInfo{TraceID: id}, member, p.Start) })
	}
	if errors.Is(err, ErrAlreadyTraced) { // by Trace, and so outside of trees
		t, e := s.task(pid)
		if e == nil {
			e = s.members.Update(t.TraceId, member, ebpf.UpdateNoExist)
		}
		err = e
	}
	if errors.Is(err, ErrNoProcess) || errors.Is(err, ErrNotTraced) || errors.Is(err, ebpf.ErrKeyExist) {
		return false, nil // it or its parent has ended, or the program was first
	}
	return err == nil, err
}

// memberOf returns the tracing entry and the membership of a process, or ErrNotTraced.
func (s *Store) memberOf(pid uint32) (*programsTask, *programsMember, error) {
	t, err := s.task(pid)
	if err != nil {
		return nil, nil, err
	}
	m := new(programsMember)
	return t, m, mapKeyError(s.members.Lookup(t.TraceId, m), ErrNotTraced)
}

// membership returns the place of a trace in a tree.
func (s *Store) membership(id uint64) (Membership, error) {
	var m programsMember
	err := mapKeyError(s.members.Lookup(id, &m), ErrNotTraced)
	return m.place(), ignoreMissing(err)
}
