package cnproc

import (
	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
)

// kindRows names the message of each kind.
var kindRows = [engine.NumKinds]string{
	engine.KindFork:         "PROC_EVENT_FORK",
	engine.KindExec:         "PROC_EVENT_EXEC",
	engine.KindExit:         "PROC_EVENT_EXIT of the threads, as one event for each process",
	engine.KindIDChange:     "PROC_EVENT_UID, PROC_EVENT_GID, PROC_EVENT_SID; not of setpgid(2)",
	engine.KindSetProcTitle: "PROC_EVENT_COMM",
	engine.KindPtrace:       "PROC_EVENT_PTRACE",
	engine.KindGap:          "missing message numbers, and the socket's count of dropped messages",
	engine.KindCoreDump:     "PROC_EVENT_EXIT with the core bit in the status",
}

// reports has, for each field, the events whose messages contain it.
var reports = [engine.NumFields]engine.Events{
	engine.FieldPPID:           engine.EventFork | engine.EventExit | engine.EventCoreDump,
	engine.FieldPGID:           engine.EventIDChange,
	engine.FieldSID:            engine.EventIDChange,
	engine.FieldUIDs:           engine.EventIDChange,
	engine.FieldGIDs:           engine.EventIDChange,
	engine.FieldComm:           engine.EventSetProcTitle,
	engine.FieldExit:           engine.EventExit,
	engine.FieldParentSignal:   engine.EventExit,
	engine.FieldBirthParentTID: engine.EventFork,
}

// endDelay is the largest measured delay of an exit message on a busy machine, in ns.
const endDelay = 2_000_000_000

// capabilities returns the capability table of a source. reads are the fields from /proc, 0 if
// /proc is not read. counts is set if the kernel counts requests, see silence.
func capabilities(o *source.Options, reads engine.Fields, tr *tracker, counts bool) (t engine.CapabilityTable) {
	var reported engine.Events
	for k, via := range kindRows {
		at := engine.Kind(k).Events()
		if k != int(engine.KindGap) && !o.Reports(at) {
			continue
		}
		if via == "" {
			t.Kinds[k].Via = "the kernel sends no message"
			continue
		}
		reported |= at
		t.Kinds[k] = engine.Capability{Origin: engine.OriginKernel, Via: via, At: at}
	}
	t.Kinds[engine.KindIDChange].Omits = engine.OmitPGID
	for f := range engine.Field(engine.NumFields) {
		row := &t.Fields[f]
		row.At = reports[f] & reported
		switch {
		case reads.Has(f):
			row.At |= (engine.EventFork | engine.EventExec) & reported
			if f == engine.FieldSUID || f == engine.FieldSGID {
				row.At |= engine.EventIDChange & reported
			}
			if failuresOnly(o) && zombieFields.Has(f) {
				row.At |= engine.EventExit
			}
			row.Origin = engine.OriginProc
			row.Via = "/proc/PID, read right after the event if the process still exists"
			if row.At&reports[f] != 0 {
				row.Via = "proc_event; else " + row.Via
			}
		case row.At != 0:
			row.Origin, row.Via = engine.OriginKernel, "proc_event"
		case f == engine.FieldExecPath:
			row.Via = "it is only in the memory of the process, which is not read"
		case engine.FieldsUsage.Has(f), f == engine.FieldStdio:
			row.Via = "the kernel's message has no such field"
		case f == engine.FieldEnviron && !o.Environ.Wanted():
			*row = source.NoEnviron
		case reads != 0 && f == engine.FieldLogin:
			row.Via = "the kernel has no CONFIG_AUDIT"
		case reads != 0 && f == engine.FieldSeccomp:
			row.Via = "the kernel has no CONFIG_SECCOMP"
		case reads != 0 && engine.FieldsNS.With(engine.FieldPIDNS).Has(f):
			row.Via = "the kernel does not support this namespace"
		case reads != 0 && procfs.Readable.Has(f):
			row.Via = "/proc shows other paths than the host's, because this process is in another cgroup namespace"
		default:
			row.Via = "the kernel's message has no such field, and /proc is not read"
		}
	}
	// The last thread notifies the parent, removes its entries from the cache of /proc, where
	// it can be preempted, and then sends its message. The kernel also sends UID and GID
	// messages for setfsuid(2) and setfsgid(2).
	t.Stamps.Ends, t.SameIDs = endDelay, true
	t.Fields[engine.FieldArgs].Whole.Bytes = procfs.MaxCmdline
	t.Fields[engine.FieldEnviron].Whole.Bytes = procfs.MaxCmdline
	t.Fields[engine.FieldExit].Via = "exit_code of the threads, or /proc/PID/stat of a zombie (Linux 6.1); " +
		"unknown if the statuses of the threads do not prove it, and for the first process of a pid namespace"
	t.Fields[engine.FieldExit].Unproven = engine.UnprovenThreadExit | engine.UnprovenReboot | engine.UnprovenLateReboot
	t.Fields[engine.FieldExit].Partial = engine.EventExit
	t.Fields[engine.FieldPPID].Partial = engine.EventExit
	t.Fields[engine.FieldLogin].At &= engine.EventExec
	t.Fields[engine.FieldLogin].Partial = t.Fields[engine.FieldLogin].At
	t.Fields[engine.FieldParentSignal].Partial = engine.EventExit
	for _, f := range []engine.Field{engine.FieldUserNS, engine.FieldCgroupNS, engine.FieldTimeNS} {
		t.Fields[f].Partial = t.Fields[f].At
	}
	note := func(applies bool, text string) {
		if applies {
			t.Notes = append(t.Notes, text)
		}
	}
	note(true, "the status can differ from the status that the parent gets: if a fatal signal meets exit(2), which libraries do not call, "+
		"and if reboot(2) ends a pid namespace whose first process was not read")
	note(reads != 0, "values from /proc are cached, except the start time and the pid namespace, which never change")
	note(reported&engine.EventIDChange != 0, "the group ids are cached if the user ids change: an exec changes both in two messages")
	note(tr.view == nil, "without /proc a process that had threads before the source was opened may be reported as ended with its leader")
	note(counts, "before Linux 6.6 any program with CAP_NET_ADMIN can stop the kernel's messages to all listeners: "+
		"after 5 s without messages the source reports a gap, and subscribes again if it still has this capability")
	note(!tr.last6, "before Linux 6.0 the exit status is not always known if the leader of a process ends before other threads")
	note(tr.dumps.spread, "before Linux 5.16 the exit status is unknown if another process dumps core at the same time")
	if dumps := &t.Kinds[engine.KindCoreDump]; tr.dumps.spread && dumps.Origin != engine.OriginNone {
		dumps.Partial = engine.EventCoreDump
		dumps.Via += "; before Linux 5.16 not if seccomp(2) ends the last thread (KILL_THREAD): its status is unknown"
	}
	return t
}
