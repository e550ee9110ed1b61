package truth

import (
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
)

// Op says what a record tells.
type Op string

const (
	Fork   Op = "fork"   // a process was made
	Exec   Op = "exec"   // it executed a program
	Exit   Op = "exit"   // its thread group ended
	IDs    Op = "ids"    // its ids changed
	Comm   Op = "comm"   // its leader's comm was set
	Ptrace Op = "ptrace" // a tracer attached or, with Tracer 0, detached
	Core   Op = "core"   // it dumped core
	Now    Op = "now"    // nothing happened: how things are
	Skip   Op = "skip"   // the scenario can't run here: Reason
	Fail   Op = "fail"   // the scenario did not do its work: Reason
)

// Record is one thing that a process writes down. Pids are of the initial pid
// namespace, times CLOCK_MONOTONIC nanoseconds.
type Record struct {
	Op  Op  `json:"op"`
	PID int `json:"pid,omitempty"`

	// The event was stamped between these. An Earliest of 0 is as early
	// as what the process did before leaves it.
	Earliest uint64 `json:"earliest,omitempty"`
	Latest   uint64 `json:"latest,omitempty"`
	// Own times were read by the process itself: what it did later is later.
	Own bool `json:"own,omitempty"`

	// State is what the process is after it. What is not told stays as it was as
	// far as an event of this kind leaves it.
	State State `json:"state"`
	// Inside is what the process itself sees where that differs from what others
	// see, as in another root.
	Inside State `json:"inside"`

	// Open is what the process has become by it and is not told.
	Open engine.Fields `json:"open,omitempty"`

	Parent  int             `json:"parent,omitempty"`  // Fork: getppid of the child
	Creator int             `json:"creator,omitempty"` // Fork: who called clone, whose state the child has
	Fresh   engine.Fields   `json:"fresh,omitempty"`   // Fork: what the child does not have of it, by flags of clone
	ID      engine.IDChange `json:"id,omitempty"`      // IDs
	Tracer  int             `json:"tracer,omitempty"`  // Ptrace
	Status  int32           `json:"status,omitempty"`  // Exit: the wait status
	// Optional events are right to be reported and right not to be.
	Optional bool `json:"optional,omitempty"`

	Reason string `json:"reason,omitempty"`
}

// Clock is CLOCK_MONOTONIC, the clock of the events.
func Clock() uint64 {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // cannot fail
	return uint64(ts.Nano())
}
