package top

import (
	"bytes"
	"container/heap"

	"github.com/quark-linux/quark"
)

// command is a failed command and the way it failed.
type command struct {
	known      quark.Fields // whether the name is
	comm       string
	waitStatus int32
	events     quark.Events     // EventExecFailed, or 0 for the end of a process
	failed     quark.FailedExec // for that
}

// Failure counts how often a command failed in one way.
type Failure struct {
	// The command failed at most Count and at least Count-Over times: it may have been counted
	// before it took another command's place.
	Count, Over uint64
	Last        uint64         // when it did the last time, in CLOCK_MONOTONIC ns
	Process     *quark.Process // one of the last second that it failed in
	command
	index int
}

// failures counts the commands that fail most, in a table of fixed size. A new command replaces the
// one with the lowest count, and inherits this count ("space-saving", Metwally, Agrawal and El
// Abbadi 2005). So the table has each command that failed more often than all failures divided by
// maxFailures.
type failures struct {
	of   map[command]*Failure
	heap []*Failure // the least first
}

// maxFailures is the maximum number of distinct failures.
const maxFailures = 512

// event returns an event with the displayed values of a failure.
func (x *Failure) event() *quark.Event {
	return &quark.Event{Process: x.Process, Events: x.events, Failed: x.failed}
}

// add counts the end of a failed process, or a failed exec.
func (f *failures) add(ev *quark.Event, time uint64) {
	p := ev.Process
	key := command{known: p.Known & quark.SetOf(quark.FieldComm)}
	if ev.Events == quark.EventExecFailed {
		key.events, key.failed = ev.Events, ev.Failed
		if path := ev.Failed.Path; len(path) > maxArgs {
			key.failed.Path, key.failed.PathTruncated = path[:maxArgs], true
		}
	} else {
		key.waitStatus = p.Task.Exit.WaitStatus
	}
	if key.known != 0 {
		key.comm = p.Comm
	}
	x := f.of[key]
	switch {
	case x != nil:
	case len(f.heap) < maxFailures:
		if f.of == nil {
			f.of = make(map[command]*Failure)
		}
		x = &Failure{command: key, index: len(f.heap)}
		f.of[key] = x
		f.heap = append(f.heap, x)
	default:
		x = f.heap[0]
		delete(f.of, x.command)
		x.Over, x.command, x.Process = x.Count, key, nil
		f.of[key] = x
	}
	// A known failure gets a new copy of the process at most once a second.
	if x.Process == nil || time/second != x.Last/second {
		x.Process = shown(p)
	}
	x.Count++
	x.Last = max(x.Last, time)
	heap.Fix(f, x.index)
}

// maxArgs limits the bytes of arguments that are kept.
const maxArgs = 1024

// shown returns a copy of the displayed members of a process, and of those that identify its user.
func shown(p *quark.Process) *quark.Process {
	c := &quark.Process{PID: p.PID, Task: p.Task, Comm: p.Comm, Cgroup: p.Cgroup, Exited: p.Exited}
	c.Image.Args = bytes.Clone(p.Image.Args[:min(len(p.Image.Args), maxArgs)])
	if len(c.Image.Args) < len(p.Image.Args) {
		c.Truncated |= quark.SetOf(quark.FieldArgs)
	}
	return c
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
func (f *failures) Len() int           { return len(f.heap) }
func (f *failures) Less(i, j int) bool { return f.heap[i].Count < f.heap[j].Count }
func (f *failures) Swap(i, j int) {
	f.heap[i], f.heap[j] = f.heap[j], f.heap[i]
	f.heap[i].index, f.heap[j].index = i, j
}
func (f *failures) Push(any) {}
func (f *failures) Pop() any { return nil }
