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
	engine.KindExit:         "PROC_EVENT_EXIT of each thread, folded to the thread group",
	engine.KindIDChange:     "PROC_EVENT_UID, PROC_EVENT_GID, PROC_EVENT_SID",
	engine.KindSetProcTitle: "PROC_EVENT_COMM",
	engine.KindPtrace:       "PROC_EVENT_PTRACE",
	engine.KindGap:          "numbers that miss among those of the messages, and the socket's count of what it dropped",
	engine.KindCoreDump:     "PROC_EVENT_EXIT whose status has a core",
}

// reports are the events whose messages have a field.
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

// endDelay is how late, in ns, the message of an end was seen at most on a machine with much load.
const endDelay = 2_000_000_000

// capabilities returns what a source reports. reads are the fields that /proc shows, none if it is
// not read. counts is set if the kernel counts requests, see silence.
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
	for f := range engine.Field(engine.NumFields) {
		row := &t.Fields[f]
		row.At = reports[f] & reported
		switch {
		case reads.Has(f):
			row.At |= (engine.EventFork | engine.EventExec) & reported
			if f == engine.FieldSUID || f == engine.FieldSGID {
				row.At |= engine.EventIDChange & reported
			}
			if failuresOnly(o) && ofZombie.Has(f) {
				row.At |= engine.EventExit
			}
			row.Origin = engine.OriginProc
			row.Via = "/proc/PID, as of right after the event, if it lives so long"
			if row.At&reports[f] != 0 {
				row.Via = "proc_event; else " + row.Via
			}
		case row.At != 0:
			row.Origin, row.Via = engine.OriginKernel, "proc_event"
		case f == engine.FieldExecPath:
			row.Via = "it is in the memory of the process alone, which is not read"
		case engine.FieldsUsage.Has(f):
			row.Via = "the kernel's message has no such field"
		case f == engine.FieldEnviron && !o.Environ.Wanted():
			*row = source.NoEnviron
		case reads != 0 && f == engine.FieldLogin:
			row.Via = "the kernel has no CONFIG_AUDIT"
		case reads != 0 && engine.FieldsNS.With(engine.FieldPIDNS).Has(f):
			row.Via = "the kernel has no such namespaces"
		case reads != 0 && procfs.Readable.Has(f):
			row.Via = "this process is in a cgroup namespace of its own, in which /proc shows other paths than the host's"
		default:
			row.Via = "the kernel's message has no such field, and /proc is not read"
		}
	}
	// The last thread reports the end to the parent, then removes its entries from the cache
	// of /proc, where it can be preempted, and then sends its message. UID and GID messages
	// come for setfsuid(2) and setfsgid(2), too.
	t.Stamps.Ends, t.SameIDs = endDelay, true
	t.Fields[engine.FieldArgs].Whole.Bytes = procfs.MaxCmdline
	t.Fields[engine.FieldEnviron].Whole.Bytes = procfs.MaxCmdline
	t.Fields[engine.FieldExit].Via = "exit_code of the threads, or /proc/PID/stat of a process not waited for yet (Linux 6.1); " +
		"unknown where its threads ended with statuses that leave it open, and of the first process of a pid namespace"
	t.Fields[engine.FieldExit].Unproven = engine.UnprovenSignal | engine.UnprovenReboot | engine.UnprovenLateReboot
	t.Fields[engine.FieldExit].Partial = engine.EventExit
	t.Fields[engine.FieldPPID].Partial = engine.EventExit
	t.Fields[engine.FieldLogin].At &= engine.EventExec
	t.Fields[engine.FieldLogin].Partial = t.Fields[engine.FieldLogin].At
	t.Fields[engine.FieldParentSignal].Partial = engine.EventExit
	for _, f := range []engine.Field{engine.FieldUserNS, engine.FieldCgroupNS, engine.FieldTimeNS} {
		t.Fields[f].Partial = t.Fields[f].At
	}
	t.Notes = append(t.Notes, "the status is not that of the parent where a fatal signal meets exit(2), which libraries do not call, "+
		"and where reboot(2) ends a pid namespace whose first process was not read")
	if reads != 0 {
		t.Notes = append(t.Notes, "what is read from /proc is cached, but for start and pid namespace, which never change")
	}
	if reported&engine.EventIDChange != 0 {
		t.Notes = append(t.Notes, "a change of user ids carries the group ids: an exec changes both in two messages")
	}
	if tr.view == nil {
		t.Notes = append(t.Notes, "no /proc: processes that had threads before the source was opened may be reported as ended with their leader")
	}
	if counts {
		t.Notes = append(t.Notes, "before Linux 6.6 any program with CAP_NET_ADMIN can end the kernel's messages to all: "+
			"that is told as a gap after 5 s without any, and mended if that capability is left")
	}
	if !tr.last6 {
		t.Notes = append(t.Notes, "before Linux 6.0 the exit status of a process whose leader ended first is not always known")
	}
	if tr.dumps.spread {
		t.Notes = append(t.Notes, "before Linux 5.16 the exit status of a process that ends while another one dumps core is not known")
		dumps := &t.Kinds[engine.KindCoreDump]
		if dumps.Origin != engine.OriginNone {
			dumps.Partial = engine.EventCoreDump
			dumps.Via += "; not that of a process whose last thread seccomp(2) ends (KILL_THREAD): before Linux 5.16 nothing tells it, nor the exit status"
		}
	}
	return t
}
