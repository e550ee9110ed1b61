package engine

import "strings"

// Kind says what a raw event reports.
type Kind uint8

// The kinds of raw event.
const (
	KindFork         Kind = iota // a process (or, with Thread set, a thread) was created
	KindExec                     // a process replaced its image
	KindExit                     // a thread group ended (or, with Thread set, one thread)
	KindIDChange                 // user, group or session ids changed
	KindSetProcTitle             // comm was set by other means than exec
	KindPtrace                   // a tracer attached or detached by ptrace(2)
	KindCoreDump                 // the kernel has written a core of a process
	KindGap                      // events were lost, see [Gap]; of no process
	KindExecFailed               // an exec failed, and the process goes on as it was
	NumKinds         = iota
)

func (k Kind) String() string {
	if int(k) < NumKinds {
		return k.Events().String()
	}
	return "UNKNOWN"
}

// Events returns the set of k alone, which is empty if there is no such kind.
func (k Kind) Events() Events {
	if int(k) < NumKinds {
		return kindEvents[k]
	}
	return 0
}

var kindEvents = [NumKinds]Events{
	KindFork: EventFork, KindExec: EventExec, KindExit: EventExit, KindIDChange: EventIDChange,
	KindSetProcTitle: EventSetProcTitle, KindPtrace: EventPtrace, KindCoreDump: EventCoreDump, KindGap: EventGap,
	KindExecFailed: EventExecFailed,
}

// Events is the set of things that one delivered event reports. The values of
// the bits are those of quark's manual; those quark has no name for follow.
type Events uint32

// The kinds of event.
const (
	EventFork         Events = 1 << 0
	EventExec         Events = 1 << 1
	EventExit         Events = 1 << 2
	EventIDChange     Events = 1 << 3
	EventSetProcTitle Events = 1 << 4
	EventPtrace       Events = 1 << 10
	EventCoreDump     Events = 1 << 15
	// EventGap: the source lost events. Event.Gap tells of them; the event is of no
	// process, and Event.Process is empty.
	EventGap Events = 1 << 16
	// EventGone: a process is not there any more and its EXIT was lost. When and how it
	// ended is not known; Process.Exited and Process.Inferred are set.
	EventGone Events = 1 << 17
	// EventExecFailed: an exec failed, Event.Failed says of what and why. It is reported only
	// if it is asked for.
	EventExecFailed Events = 1 << 18
)

var eventNames = []struct {
	bit  Events
	name string
}{
	{EventFork, "FORK"}, {EventExec, "EXEC"}, {EventExit, "EXIT"}, {EventIDChange, "ID_CHANGE"},
	{EventSetProcTitle, "SETPROCTITLE"}, {EventPtrace, "PTRACE"}, {EventCoreDump, "CORE_DUMP"},
	{EventGap, "GAP"}, {EventGone, "GONE"}, {EventExecFailed, "EXEC_FAILED"},
}

// Has reports whether e has one of the kinds in any.
func (e Events) Has(any Events) bool { return e&any != 0 }

// Names appends the names of the set's members to dst, lowest bit first.
func (e Events) Names(dst []string) []string {
	for _, n := range eventNames {
		if e&n.bit != 0 {
			dst = append(dst, n.name)
		}
	}
	return dst
}

// String joins the names with "+", lowest bit first; the empty set is "".
func (e Events) String() string { return strings.Join(e.Names(make([]string, 0, 8)), "+") }

// IDChange is the set of ids that an ID_CHANGE event reports as changed.
type IDChange uint8

const (
	ChangedSID IDChange = 1 << 0 // setsid
	ChangedUID IDChange = 1 << 1 // setuid, setreuid, setresuid
	ChangedGID IDChange = 1 << 2 // setgid, setregid, setresgid
)

func (c IDChange) String() string {
	var names []string
	for i, n := range []string{"SETSID", "SETUID", "SETGID"} {
		if c&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	return strings.Join(names, "+")
}
