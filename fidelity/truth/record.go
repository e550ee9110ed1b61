// Package truth holds the ground truth: the records that processes of a scenario write about
// themselves, and the processes assembled from them.
//
// A record is written by the process that caused the event, or by its parent from the result of a
// system call. Its two clock readings, one before and one after the call, bound the time stamp of
// the event in the kernel. If the latest time of one event is before the earliest of another, they
// happened in that order.
//
// The package uses no code of a backend, as a shared mistake would be invisible.
package truth

import (
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
)

// Op is the kind of a record.
type Op string

const (
	Fork       Op = "fork"        // a process was created
	Exec       Op = "exec"        // it executed a program
	Exit       Op = "exit"        // its thread group ended
	IDs        Op = "ids"         // its ids changed
	Comm       Op = "comm"        // its leader's comm was set
	NS         Op = "ns"          // its namespaces changed
	Ptrace     Op = "ptrace"      // a tracer attached, or detached if Tracer is 0
	Cgroup     Op = "cgroup"      // Tracer moved it to another cgroup; 0: it did so itself
	Core       Op = "core"        // it dumped core
	ExecFailed Op = "exec-failed" // an exec failed
	Now        Op = "now"         // no event: State is the current state
	// no event: /proc shows State from now on, though it is not the value that quark reports
	Shown   Op = "shown"
	HasUsed Op = "used" // no event: Used is the usage so far
	// no event: it paused until all queues had been read
	Read        Op = "read"
	ThreadStart Op = "thread-start" // its thread TID started
	ThreadEnd   Op = "thread-end"   // its thread TID ended
	Next        Op = "next"         // the following records belong to the next scenario
	Skip        Op = "skip"         // the scenario can't run here: Reason
	Fail        Op = "fail"         // the scenario failed: Reason
)

// Record is one record of a process. Pids are in the initial pid namespace, times in nanoseconds of
// CLOCK_MONOTONIC.
type Record struct {
	Op  Op  `json:"op"`
	PID int `json:"pid,omitempty"`
	TID int `json:"tid,omitempty"` // ThreadStart, ThreadEnd

	// The event was stamped between these times. Zero in Earliest means any time after the
	// previous event of the process.
	Earliest uint64 `json:"earliest,omitempty"`
	Latest   uint64 `json:"latest,omitempty"`
	// Own is set if the process itself read the times. Its later events are then later.
	Own bool `json:"own,omitempty"`

	// State is the state after the event. Fields without a value are unchanged, unless an event
	// of this kind can change them.
	State State `json:"state"`
	// Inside is the process's own view where it differs, as in another root.
	Inside State `json:"inside"`

	// Open are fields that the event changed to the values in State or to unrecorded values.
	Open engine.Fields `json:"open,omitempty"`
	// MayCut are fields so long that reports may truncate them.
	MayCut engine.Fields `json:"may_cut,omitempty"`
	// Unreachable are paths that from now on are unreachable from the process's root.
	Unreachable engine.Fields `json:"unreachable,omitempty"`
	// OpenThreads is set if the process, like every Go program, starts unrecorded threads from
	// now on.
	OpenThreads bool `json:"open_threads,omitempty"`
	// Exit: ByThread is set if exit(2) of the leader or of the last thread ended the process,
	// not exit_group(2).
	ByThread bool `json:"by_thread,omitempty"`

	Parent int `json:"parent,omitempty"` // Fork: getppid of the child
	// Fork: the caller of clone, which passes on its state
	Creator int `json:"creator,omitempty"`
	// Fork: fields that the child does not inherit, by flags of clone
	Fresh engine.Fields `json:"fresh,omitempty"`
	// IDs: the changed ids. Exec: ids that may differ because a thread called exec.
	ID     engine.IDChange `json:"id,omitempty"`
	NS     NSChange        `json:"ns,omitzero"`      // NS
	Tracer int             `json:"tracer,omitempty"` // Ptrace, Cgroup
	Status int32           `json:"status,omitempty"` // Exit: the wait status
	Failed Failed          `json:"failed,omitzero"`  // ExecFailed
	// Used is the usage of the process. Peak RSS and I/O include children that were waited for.
	// Exit: it includes the cost of the end.
	Used *Used `json:"used,omitempty"`
	// Optional events may be missing.
	Optional bool `json:"optional,omitempty"`
	// Compat is set if a 32-bit system call caused the event, or if seccomp(2) caused the core
	// dump. Some sources miss these, as their tables list.
	Compat bool `json:"compat,omitempty"`
	// Unchanged is set if no tracked id changed: the call set the current values, or changed
	// only untracked ids.
	Unchanged bool `json:"unchanged,omitempty"`

	Reason string `json:"reason,omitempty"`
}

// NSChange are the namespaces that changed, and their inode numbers before. The zero value means
// unknown, as does a number of 0.
type NSChange struct {
	Changed engine.NSSet
	Old     [len(engine.NSNames)]uint32
	NewPID  uint32 // the new namespace of future children
}

// Is reports whether got is a correct report of c.
func (c *NSChange) Is(got *engine.NSChange) bool {
	o := &got.Old
	for i, old := range [...]uint32{o.UTS, o.IPC, o.Mnt, o.Net, o.PID, o.User, o.Cgroup, o.Time} {
		if c.Old[i] != 0 && c.Old[i] != old {
			return false
		}
	}
	return c.Changed == 0 || c.Changed == got.Changed && (c.NewPID == 0 || c.NewPID == got.NewPID)
}

// Failed is an exec that failed.
type Failed struct {
	Errno int
	Path  string // in the form of engine.FailedExec
	// NoPath is set if the path cannot be known, MayCut if it is too long.
	NoPath, MayCut bool
}

// Is reports whether got is a correct report of f.
func (f *Failed) Is(got *engine.FailedExec) bool {
	switch {
	case int(got.Errno) != f.Errno, got.PathKnown == f.NoPath, got.PathTruncated && !f.MayCut:
		return false
	case got.PathTruncated:
		return len(got.Path) > 0 && strings.HasPrefix(f.Path, got.Path)
	}
	return f.NoPath || got.Path == f.Path
}

// Clock returns CLOCK_MONOTONIC, the clock of the events.
func Clock() uint64 { return read(unix.CLOCK_MONOTONIC) }

// WallOffset returns CLOCK_REALTIME minus CLOCK_MONOTONIC.
func WallOffset() int64 { return int64(read(unix.CLOCK_REALTIME) - read(unix.CLOCK_MONOTONIC)) }

// BootOffset returns CLOCK_BOOTTIME minus CLOCK_MONOTONIC: the time spent suspended.
func BootOffset() uint64 {
	least := Forever
	for range 10 {
		mono := read(unix.CLOCK_MONOTONIC)
		least = min(least, read(unix.CLOCK_BOOTTIME)-mono)
	}
	if least < uint64(time.Millisecond) {
		return 0 // never suspended: the difference is the time between the two calls
	}
	return least
}

func read(clock int32) uint64 {
	var ts unix.Timespec
	unix.ClockGettime(clock, &ts) // cannot fail
	return uint64(ts.Nano())
}
