package engine

import (
	"bytes"
	"iter"
	"slices"
	"time"

	"github.com/quark-linux/quark/engine/container"
)

// Identity names a process for ever: a pid can be reused, but not with the same start time. A start
// time from /proc is rounded down to [ProcStartUnit]; lookups accept such a time.
type Identity struct {
	PID   uint32
	Start uint64 // CLOCK_BOOTTIME nanoseconds
}

// Process is the known state of a process as of the last event about it. Known lists the members
// that hold a value.
//
// A *Process that the engine returns is valid until the next call of Get; [Process.Clone] copies
// it. The strings may be kept, Args and Environ may not.
type Process struct {
	PID uint32
	Task

	Image
	Comm   string // up to 15 bytes
	Cwd    string
	Cgroup string

	// Birth identifies the process's creator. It never changes; Task.PPID is the current
	// parent.
	Birth Birth

	Usage Usage // known only in the event with the EXIT

	// EntryLeader is the process that began this one's login or container, and EntryType is its
	// type, if FieldEntryLeader is known. The leader may have ended.
	EntryLeader Identity
	EntryType   EntryType

	// Privileges are the privileges that the file gave the process at its last EXEC, if
	// FieldPrivileges is known.
	Privileges Privileges

	// Marks are the bits that a filter attached to the process.
	Marks Marks

	// Exited is set once the end of the process was reported, even if its status is unknown.
	// Lookups find the process for the grace time.
	Exited bool

	// Inferred is set, with Exited, if the EXIT was lost and a check found the process gone or
	// its pid reused. A later event of the process clears both.
	Inferred bool

	asOf  uint64 // see AsOf
	born  uint64
	tags  []string // the names of the bits of Marks
	clock *Clock
}

// Image is the program that a process executes.
type Image struct {
	Exe      string // absolute path of the executable, or "memfd:NAME"
	ExecPath string // the path argument of execve(2)
	Args     []byte // each argument followed by a NUL: as passed to execve(2), or as in /proc
	Environ  []byte // likewise the requested variables, as NAME=value
}

// UID returns the real user id. Here and in the methods below known is false while the value is
// unknown; Cached and Truncated describe known values.
func (p *Process) UID() (uid uint32, known bool) { return p.Cred.UID, p.Known.Has(FieldUIDs) }

// Exe returns the path of the executable, see [Image].
func (p *Process) Exe() (path string, known bool) { return p.Image.Exe, p.Known.Has(FieldExe) }

// Args returns the arguments. Arguments yields them without a copy.
func (p *Process) Args() (args []string, known bool) {
	for arg := range p.Arguments() {
		args = append(args, string(arg))
	}
	return args, p.Known.Has(FieldArgs)
}

// Duration returns how long the process lived, once its EXIT is reported. It is at most StartUnit
// too long.
func (p *Process) Duration() (d time.Duration, known bool) {
	if p.clock == nil || !p.Known.Has(FieldStart) || !p.Known.Has(FieldExit) {
		return 0, false
	}
	return time.Duration(max(p.clock.Boot(p.Exit.Time), p.Start) - p.Start), true
}

// Tags returns the tags that the rules of a filter gave the process, or gave an ancestor before the
// fork. It omits uncertain tags.
func (p *Process) Tags() (names []string) {
	for i, name := range p.tags {
		if name != "" && p.Marks.Set&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// Birth is the parent that a process had when it was forked. With CLONE_PARENT it is not the
// process that called fork.
type Birth struct {
	Parent Identity
	Known  Fields // FieldPPID if Parent.PID holds a value, FieldStart if Parent.Start does
}

// Identity returns the process's identity; ok is false while its start time is
// unknown.
func (p *Process) Identity() (id Identity, ok bool) {
	return Identity{p.PID, p.Start}, p.Known.Has(FieldStart)
}

// AsOf returns the time of the values in CLOCK_MONOTONIC nanoseconds: the time of the latest event
// of the process, or of the read of /proc. 0 is unknown.
func (p *Process) AsOf() uint64 { return p.asOf }

// IsKernelThread reports whether p is certainly a kernel thread, which has neither an executable
// nor arguments.
func (p *Process) IsKernelThread() bool {
	certain := (p.Known &^ p.Cached).Has(FieldEntryLeader) && p.EntryType == EntryKThread
	return certain && !p.Known.Has(FieldExe) && !p.Known.Has(FieldArgs)
}

// Arguments yields the arguments, without their NULs. The slices are parts of Args.
func (p *Process) Arguments() iter.Seq[[]byte] {
	return parts(p.Image.Args)
}

// Variables yields the variables of the environment. The slices are parts of Environ.
func (p *Process) Variables() iter.Seq[[]byte] { return parts(p.Environ) }

// parts yields the texts in all, each of which ends in a NUL.
func parts(all []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for rest := all; len(rest) > 0; {
			part, after, found := bytes.Cut(rest, []byte{0})
			if !yield(part) || !found {
				return
			}
			rest = after
		}
	}
}

// Container is the container of a process.
type Container = container.Container

// Container returns the container of the process according to its cgroup, see
// [github.com/quark-linux/quark/engine/container]; it is the zero Container if the cgroup names
// none. The container is unknown if Cgroup is unknown or lacks its beginning, and cached if Cgroup
// is cached.
func (p *Process) Container() (c Container, known bool) {
	return containerOf(p.Cgroup, p.Known&^p.Truncated)
}

func (p *process) container() (c Container, known bool) {
	return containerOf(p.Cgroup, p.Known&^p.Truncated)
}

func containerOf(cgroup string, whole Fields) (c Container, known bool) {
	if !whole.Has(FieldCgroup) {
		return c, false
	}
	return container.Of(cgroup), true
}

// Clone returns a copy that later calls of Get do not change.
func (p *Process) Clone() *Process {
	if p == nil {
		return nil
	}
	c := *p
	c.Image.Args, c.Environ = bytes.Clone(p.Image.Args), bytes.Clone(p.Environ)
	return &c
}

// Event is one delivered event: the change, and the known state of the process after it. An Event
// and its contents are valid until the next call of Get; [Event.Clone] copies it.
type Event struct {
	Events   Events   // what happened
	Unsure   bool     // it passed the filter although it is unknown whether it matches
	Rules    []string // the names of the rules of the filter that let it pass, or may have
	IDChange IDChange // which ids, if ID_CHANGE is among them

	Time uint64    // CLOCK_MONOTONIC nanoseconds of the first raw event
	Wall time.Time // Time as wall time, by the clock's offset at that time

	// Thread is set for an event of one thread, with Options.Threads; TID is the thread. Else
	// TID is the thread of the first raw event. In the event of a thread, the per-thread
	// members of Process have the thread's own values, or are unknown if the source does not
	// report them: ids, capabilities, comm, namespaces, directory, cgroup and exit.
	Thread bool
	TID    uint32

	// CPU is the CPU of the first raw event. GAP and GONE have AllCPUs.
	CPU uint32

	Tracer struct{ PID, TID uint32 } // for PTRACE; 0:0 is a detach

	OldPPID  uint32     // for REPARENT: the parent that ended
	Failed   FailedExec // for EXEC_FAILED
	NSChange NSChange   // for NS_CHANGE

	// CgroupChangeBy is, for CGROUP_CHANGE, the process that wrote to cgroup.procs. Its Start
	// is 0 if unknown.
	CgroupChangeBy Identity

	// Parts are the raw events that the event reports, in order: one, unless events were
	// joined.
	Parts []Part

	Gap Gap // for GAP

	Process *Process
}

// Part is one of the raw events that an [Event] reports.
type Part struct {
	Kind     Kind
	IDChange IDChange // for KindIDChange
	Time     uint64   // CLOCK_MONOTONIC nanoseconds
	CPU      uint32

	// Cred are the ids right after the part, as far as their fields are in Known. For KindExec
	// they are the ids that the image began with.
	Cred   Credentials
	Known  Fields
	Cached Fields // the fields of Known that may have changed before; see Task
}

// Clone returns a copy that later calls of Get do not change.
func (e *Event) Clone() *Event {
	c := *e
	c.Process = e.Process.Clone()
	c.Parts, c.Rules = slices.Clone(e.Parts), slices.Clone(e.Rules)
	return &c
}
