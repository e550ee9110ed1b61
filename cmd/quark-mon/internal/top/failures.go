package top

import (
	"bytes"
	"container/heap"

	"github.com/quark-linux/quark"
)

// command is a failed command and the way it failed.
type command struct {
	known      quark.Fields // whether comm is known
	comm       string
	waitStatus int32
	events     quark.Events     // EventExecFailed, or 0 for an exit
	failed     quark.FailedExec // set for EventExecFailed
}

// Failure counts how often a command failed in one way.
type Failure struct {
	// The command failed at most Count and at least Count-Over times: it may have replaced
	// another command with the count Over.
	Count, Over uint64
	Last        uint64         // last failure, in CLOCK_MONOTONIC ns
	Process     *quark.Process // copied in the second of the last failure
	command
	index int
}

// failures counts the commands that fail most, in a table of fixed size. A new command replaces the
// one with the lowest count, and inherits this count ("space-saving", Metwally, Agrawal and El
// Abbadi 2005). So every command with more than 1/maxFailures of all failures is in the table.
type failures struct {
	of   map[command]*Failure
	heap []*Failure // lowest count first
}

// maxFailures is the maximum number of distinct failures.
const maxFailures = 512

// event returns an event with the displayed values of a failure.
func (x *Failure) event() *quark.Event {
	return &quark.Event{Process: x.Process, Events: x.events, Failed: x.failed}
}

// add counts the exit of a failed process, or a failed exec.
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
	// A known failure gets a new copy at most once a second.
	if x.Process == nil || time/second != x.Last/second {
		x.Process = copyShown(p)
	}
	x.Count++
	x.Last = max(x.Last, time)
	heap.Fix(f, x.index)
}

// maxArgs limits the bytes of arguments that are kept.
const maxArgs = 1024

// copyShown returns a copy of a process with only the displayed members, and the members that
// select user names.
func copyShown(p *quark.Process) *quark.Process {
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
