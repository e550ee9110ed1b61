package exitsnoop

import (
	"errors"
	"path/filepath"

	"github.com/cilium/ebpf"

	"github.com/quark-linux/quark/internal/proctext"
)

// TreeOptions are for [Store.TraceTree].
type TreeOptions struct {
	// TaskInfo is that of the first process. A TraceID of 0 stands for a random one.
	TaskInfo

	// Existing has the descendants traced too that the process has already.
	Existing bool
}

// Membership is the place of a process in a tree. It is zero for a process of none.
type Membership struct {
	// Tree is the trace id of the process with which TraceTree was called.
	Tree uint64
	// Parent is the trace id of the process that forked this one, 0 for the first of a tree.
	Parent uint64
}

// TraceTree begins to trace a process as [Store.Trace] does, and returns its trace id. Whatever the
// process forks from then on is traced before it can run, and what that forks, and so on; also
// after the process has ended. The descendants have random trace ids, and the first one's as
// [Membership]. If there is no room for one it runs untraced, as do its own descendants;
// Stats.Untraced counts it.
//
// With o.Existing the descendants that can be found in /proc are traced as well. One whose parent
// has ended is not found, as it looks like one of the process that has adopted it. If one that is
// found cannot be traced, TraceTree returns both the trace id and an error.
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

// traceExisting traces the children of a tree's members, or those of all trees if tree is 0, until
// there is none that is not traced. Those that are forked meanwhile are traced by the program.
func (s *Store) traceExisting(tree uint64) error {
	for found := true; found; {
		found = false
		paths, err := filepath.Glob("/proc/[0-9]*/stat")
		if err != nil {
			return err
		}
		for _, path := range paths {
			p, err := proctext.ReadStat(path)
			if err != nil {
				continue // it has ended
			}
			pid, _ := proctext.Uint32([]byte(filepath.Base(filepath.Dir(path))))
			traced, err := s.traceChild(pid, &p, tree)
			if err != nil {
				return withPID(pid, err)
			}
			found = found || traced
		}
	}
	return nil
}

// traceChild traces a process if its parent is a member of the tree and it is none yet, and reports
// whether it has done so.
func (s *Store) traceChild(pid uint32, p *proctext.Stat, tree uint64) (bool, error) {
	parent, member, err := s.memberOf(p.PPID)
	if err != nil || tree != 0 && member.Tree != tree {
		return false, ignoreMissing(err)
	}
	if _, _, err := s.memberOf(pid); err == nil {
		return false, nil
	}
	// If the parent has not ended yet, the pid that /proc showed as the parent's is its.
	held, err := s.openTraced(parent.TraceId, p.PPID)
	if err == nil {
		held.close()
		member.Parent, member.Untraced = parent.TraceId, 0
		from, _ := s.offset.span(p.Start)
		_, err = withRandomID(func(id uint64) error { return s.trace(pid, TaskInfo{TraceID: id}, member, from) })
	}
	if errors.Is(err, ErrAlreadyTraced) { // by Trace, and so of no tree
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
