// Package truth is what really happened: the records that processes of a scenario
// write about themselves, and the lives that are put together from them.
//
// A record is written from inside, by the process that did the thing or by its
// parent with what a system call returned. Its two clock readings, one before and
// one after, bound when the kernel can have stamped the event; two events of which
// one's latest is before the other's earliest time happened in that order.
//
// Nothing here uses the code of a backend, which would agree with itself.
package truth

import (
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
)

// Op says what a record tells.
type Op string

const (
	Fork       Op = "fork"        // a process was made
	Exec       Op = "exec"        // it executed a program
	Exit       Op = "exit"        // its thread group ended
	IDs        Op = "ids"         // its ids changed
	Comm       Op = "comm"        // its leader's comm was set
	Ptrace     Op = "ptrace"      // a tracer attached or, with Tracer 0, detached
	Core       Op = "core"        // it dumped core
	ExecFailed Op = "exec-failed" // an exec failed
	Now        Op = "now"         // nothing happened: how things are
	// nothing happened: /proc shows State from now on, though the fields mean something else
	Shown   Op = "shown"
	HasUsed Op = "used" // nothing happened: it had used Used
	// nothing happened: it stood still until all queues had been read
	Read        Op = "read"
	ThreadStart Op = "thread-start" // a thread of it, TID, started
	ThreadEnd   Op = "thread-end"   // a thread of it, TID, ended
	Next        Op = "next"         // the records that follow are of the next scenario
	Skip        Op = "skip"         // the scenario can't run here: Reason
	Fail        Op = "fail"         // the scenario did not do its work: Reason
)

// Record is one thing that a process writes down. Pids are of the initial pid
// namespace, times CLOCK_MONOTONIC nanoseconds.
type Record struct {
	Op  Op  `json:"op"`
	PID int `json:"pid,omitempty"`
	TID int `json:"tid,omitempty"` // ThreadStart, ThreadEnd

	// The event was stamped between these. An Earliest of 0 means: any time after
	// what the process did before.
	Earliest uint64 `json:"earliest,omitempty"`
	Latest   uint64 `json:"latest,omitempty"`
	// Own times were read by the process itself: what it did later is later.
	Own bool `json:"own,omitempty"`

	// State is what the process is after it. Fields that are not told stay as they
	// were, unless an event of this kind can change them.
	State State `json:"state"`
	// Inside is what the process itself sees where that differs from what others
	// see, as in another root.
	Inside State `json:"inside"`

	// Open are fields that the event changed, to the values in State or to others, which are
	// not told.
	Open engine.Fields `json:"open,omitempty"`
	// MayCut are fields that are too long to be always reported whole.
	MayCut engine.Fields `json:"may_cut,omitempty"`
	// Unreachable are paths that from now on can't be reached from the process's root.
	Unreachable engine.Fields `json:"unreachable,omitempty"`
	// OpenThreads is set if the process, as every Go program, starts threads from
	// now on of which nothing is told.
	OpenThreads bool `json:"open_threads,omitempty"`
	// Exit: ByThread is set if the leader's exit(2) ended the process, or the last of its
	// threads, and not exit_group(2).
	ByThread bool `json:"by_thread,omitempty"`

	Parent int `json:"parent,omitempty"` // Fork: getppid of the child
	// Fork: who called clone, whose state the child has
	Creator int `json:"creator,omitempty"`
	// Fork: what the child does not inherit, by flags of clone
	Fresh engine.Fields `json:"fresh,omitempty"`
	// IDs: which changed. Exec: which a thread may have had for itself.
	ID     engine.IDChange `json:"id,omitempty"`
	Tracer int             `json:"tracer,omitempty"` // Ptrace
	Status int32           `json:"status,omitempty"` // Exit: the wait status
	Failed Failed          `json:"failed,omitzero"`  // ExecFailed
	// Used is what the process has used, the peak RSS and the I/O with what children had that
	// were waited for. Exit: with all of the end.
	Used *Used `json:"used,omitempty"`
	// Optional events may be reported or not.
	Optional bool `json:"optional,omitempty"`
	// Compat is set if a 32-bit system call did it, or if seccomp(2) had the core dumped, which
	// not every source sees: its table says so.
	Compat bool `json:"compat,omitempty"`
	// Unchanged is set if the ids were set to what they are, or ids of no interest were.
	Unchanged bool `json:"unchanged,omitempty"`

	Reason string `json:"reason,omitempty"`
}

// Failed is an exec that failed.
type Failed struct {
	Errno int
	Path  string // as engine.FailedExec has it
	// NoPath is set if nobody can know the path, and MayCut if it is too long.
	NoPath, MayCut bool
}

// Is reports whether a source may report f so.
func (f *Failed) Is(got *engine.FailedExec) bool {
	switch {
	case int(got.Errno) != f.Errno, got.PathKnown == f.NoPath, got.PathCut && !f.MayCut:
		return false
	case got.PathCut:
		return len(got.Path) > 0 && strings.HasPrefix(f.Path, got.Path)
	}
	return f.NoPath || got.Path == f.Path
}

// Clock returns CLOCK_MONOTONIC, the clock of the events.
func Clock() uint64 { return read(unix.CLOCK_MONOTONIC) }

// WallOffset returns CLOCK_REALTIME less CLOCK_MONOTONIC.
func WallOffset() int64 { return int64(read(unix.CLOCK_REALTIME) - read(unix.CLOCK_MONOTONIC)) }

// BootOffset returns CLOCK_BOOTTIME less CLOCK_MONOTONIC: the time spent suspended.
func BootOffset() uint64 {
	least := Forever
	for range 10 {
		mono := read(unix.CLOCK_MONOTONIC)
		least = min(least, read(unix.CLOCK_BOOTTIME)-mono)
	}
	if least < uint64(time.Millisecond) {
		return 0 // never suspended: what is left is the time between the readings
	}
	return least
}

func read(clock int32) uint64 {
	var ts unix.Timespec
	unix.ClockGettime(clock, &ts) // cannot fail
	return uint64(ts.Nano())
}
