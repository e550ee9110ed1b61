package top

import (
	"bytes"
	"math"

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
}

// failures counts the commands that fail most, in a table of fixed size. A new command replaces the
// one with the lowest count, and inherits this count ("space-saving", Metwally, Agrawal and El
// Abbadi 2005). So every command with more than 1/maxFailures of all failures is in the table.
type failures map[command]*Failure

// maxFailures is the maximum number of distinct failures.
const maxFailures = 512

// event returns an event with the displayed values of a failure.
func (x *Failure) event() *quark.Event {
	return &quark.Event{Process: x.Process, Events: x.events, Failed: x.failed}
}

// add counts the exit of a failed process, or a failed exec.
func (f failures) add(ev *quark.Event, time uint64) {
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
	x := f[key]
	if x == nil {
		x = &Failure{command: key}
		if len(f) >= maxFailures {
			x.Count = math.MaxUint64
			for _, other := range f {
				if other.Count < x.Count {
					x = other
				}
			}
			delete(f, x.command)
			x.Over, x.command, x.Process = x.Count, key, nil
		}
		f[key] = x
	}
	// A known failure gets a new copy at most once a second.
	if x.Process == nil || time/second != x.Last/second {
		x.Process = copyShown(p)
	}
	x.Count++
	x.Last = max(x.Last, time)
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
