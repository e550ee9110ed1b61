package kprobe

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
)

// execs finds execs that fail. The record of the call's exit does not have the path, so each call
// is followed through its stages: the call is entered, the kernel has copied the path, the old
// memory is released, the call exits. The task can move to another CPU between stages, so the
// records are sorted after the rings of all CPUs were read. The path is the kernel's copy. At the
// entry, the path in user memory may not be resident, and may change.
type execs struct {
	read  []execStage
	calls map[uint32]*execCall // in progress, by thread
	since uint64               // if not 0, stages after this time may be missing
	path  [chunks * chunkSize]byte
}

type execStage struct {
	family        int
	pid, tid, cpu uint32
	time          uint64
	call          execCall // of familyExecPath
	result        int64    // of the exit
}

type execCall struct {
	path       []byte // as engine.FailedExec has it
	known, cut bool
	noReturn   bool // a failure after this stage ends the process
}

const (
	// maxExecs bounds the number of calls. A thread that is killed in its call leaves an entry.
	maxExecs = 4096
	// maxErrno is the largest error that a program receives. For larger ones the kernel
	// restarts the call, or ends the process.
	maxErrno = 511
)

// add adds a stage.
func (e *execs) add(a *assembly) {
	v := &a.values
	st := execStage{family: a.set.family, pid: a.pid, tid: a.tid, cpu: a.cpu, time: a.time}
	switch st.family {
	case familyExecPath:
		path := e.path[:v.readable(len(e.path))]
		v.arguments(path)
		end := bytes.IndexByte(path, 0)
		st.call.known, st.call.cut = len(path) > 0, end < 0
		if end >= 0 {
			path = path[:end]
		}
		st.call.path = source.PathBelow(int32(v.u32(slotDir)), bytes.Clone(path))
	case familyExecEnds, familyExecAtEnds:
		st.result = int64(v.number(slotResult))
	}
	e.read = append(e.read, st)
}

// markMissing records that stages after the time since may be missing.
func (e *execs) markMissing(since uint64) {
	if e.since == 0 || since < e.since {
		e.since = since
	}
}

// next adds a stage to its call. It returns the call if the stage is its failure.
func (e *execs) next(st *execStage) *execCall {
	call := e.calls[st.tid]
	switch st.family {
	case familyExecBegins, familyExecAtBegins:
		if len(e.calls) >= maxExecs {
			for tid := range e.calls { // any call
				delete(e.calls, tid)
				break
			}
		}
		e.calls[st.tid] = new(execCall)
	case familyExecPath:
		if call != nil {
			*call = st.call
		}
	case familyExecNoReturn:
		if call != nil {
			call.noReturn = true
		}
	default:
		delete(e.calls, st.tid)
		if call != nil && !call.noReturn && -maxErrno <= st.result && st.result < 0 && (e.since == 0 || st.time <= e.since) {
			return call
		}
	}
	return nil
}

// reportExecs passes failed execs to the sink, after the rings of all CPUs were read.
func (s *Source) reportExecs(to engine.Sink) {
	e := &s.execs
	slices.SortStableFunc(e.read, func(a, b execStage) int { return cmp.Compare(a.time, b.time) })
	n := 0
	for ; n < len(e.read) && to.Room() > 0; n++ {
		st := &e.read[n]
		call := e.next(st)
		if call == nil {
			continue
		}
		ev := to.Reserve()
		ev.Kind, ev.PID, ev.TID, ev.CPU, ev.Time, ev.Errno = engine.KindExecFailed, st.pid, st.tid, st.cpu, st.time, uint16(-st.result)
		if call.known {
			ev.Set(engine.FieldExe, call.path)
			if call.cut {
				ev.Task.Truncated |= engine.FieldExe.Set()
			}
		}
		s.insert(to, ev)
	}
	e.read = slices.Delete(e.read, 0, n)
	if len(e.read) == 0 && e.since != 0 {
		clear(e.calls)
		e.since = 0
	}
}
