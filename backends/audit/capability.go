package audit

import (
	"fmt"
	"time"

	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
)

// describe fills the capability table. always is set if audit was enabled at the boot.
func (s *Source) describe(always bool, notes []string) {
	const fork, exec, exit, ids = engine.EventFork, engine.EventExec, engine.EventExit, engine.EventIDChange
	c := &s.caps
	for k := range c.Kinds {
		c.Kinds[k].Via = "no system call that is recorded tells it"
	}
	c.Kinds[engine.KindCoreDump].Via = "the record of such an end (ANOM_ABEND) does not say whether there is a core"
	kind := func(k engine.Kind, via string) {
		c.Kinds[k] = engine.Capability{Origin: engine.OriginKernel, Via: via, Partial: k.Events()}
	}
	kind(engine.KindFork, "SYSCALL of fork, vfork, clone and clone3; not where /proc shows neither the caller nor the child, nor of callers in pid namespaces of their own, nor of processes that are there at the start, nor where the child did something else long before the call returned, as after vfork")
	kind(engine.KindExec, "SYSCALL and EXECVE of execve and execveat; not of programs that the kernel itself starts")
	if !always {
		c.Kinds[engine.KindExec].Via += ", nor of processes older than the first enabling of audit"
	}
	kind(engine.KindExit, "SYSCALL of exit_group, and of exit if its process was told to fork or to execute and has made no thread since, nor what was gone before it could be looked at; not of ends by a signal")
	kind(engine.KindIDChange, "SYSCALL of set*uid, set*gid and setsid, where /proc shows that it is of the leader; not the first of a process after a loss, nor of one whose birth is told late: what the ids were is not known")
	kind(engine.KindExecFailed, "SYSCALL and PATH; the path is unknown where the kernel refused it before it had a copy; not with EINTR, nor by seccomp(2); one that ends its process may be told")
	c.Kinds[engine.KindExecFailed].Partial = 0
	c.Kinds[engine.KindGap] = engine.Capability{Origin: engine.OriginKernel,
		Via: "numbers that miss among those of the events, the socket's count of what it dropped, and the kernel's of what it had no room for"}

	var reported engine.Events
	for _, k := range []engine.Events{fork, exec, exit, ids} {
		if s.shared.Reports(k) {
			reported |= k
		}
	}
	for f := range engine.Field(engine.NumFields) {
		row := &c.Fields[f]
		switch {
		case f == engine.FieldEnviron && !s.shared.Environ.Wanted():
			*row = source.NoEnviron
		case (s.proc.Readable() &^ ofRecords).Has(f):
			at := (fork | exec) & reported
			*row = engine.Capability{Origin: engine.OriginProc, Via: "/proc/PID; as of right after the event, if it lives so long", At: at, Partial: at}
		case engine.FieldsUsage.Has(f):
			row.Via = "no record has it"
		case (procfs.Readable &^ ofRecords).Has(f):
			row.Via = "/proc does not show it, or not what is true for the host"
		default:
			row.Via = "no record tells it"
		}
	}
	brings := func(f engine.Field, via string, at, partial engine.Events) {
		c.Fields[f] = engine.Capability{Origin: engine.OriginKernel, Via: via, At: at & reported, Partial: partial & reported}
	}
	brings(engine.FieldPPID, "SYSCALL.ppid, of a fork pid; of clone3 /proc/PID/stat", fork|exec|exit, fork)
	brings(engine.FieldUIDs, "SYSCALL.uid, euid", fork|exec|ids, 0)
	brings(engine.FieldSUID, "SYSCALL.suid", fork|exec|ids, 0)
	brings(engine.FieldGIDs, "SYSCALL.gid, egid", fork|exec|ids, 0)
	brings(engine.FieldSGID, "SYSCALL.sgid", fork|exec|ids, 0)
	for _, f := range []engine.Field{engine.FieldUIDs, engine.FieldSUID, engine.FieldGIDs, engine.FieldSGID} {
		c.Fields[f].Partial = ids & reported // that of setsid does not say whose
	}
	brings(engine.FieldLogin, "SYSCALL.auid, ses", fork|exec, 0)
	brings(engine.FieldComm, "SYSCALL.comm", exec, 0)
	brings(engine.FieldExecPath, "PATH.name", exec, exec)
	brings(engine.FieldCmdline, "EXECVE; of a fork /proc/PID/cmdline", fork|exec, fork|exec)
	brings(engine.FieldExit, "the argument of exit_group, carried: a signal that came right before decides; or /proc/PID/stat of a zombie (Linux 6.1)", exit, exit)
	c.Fields[engine.FieldExitSignal].Via = "clone's flags; of clone3 and after an exec /proc/PID/stat"
	c.Fields[engine.FieldFilename].Via = "SYSCALL.exe, if the exec was asked for that path; else /proc/PID/exe"
	for _, f := range []engine.Field{engine.FieldSID, engine.FieldPGID} {
		c.Fields[f].At |= ids & reported
		c.Fields[f].Partial |= ids & reported
		c.Fields[f].Via += "; SYSCALL of setsid"
	}
	start := &c.Fields[engine.FieldStart]
	start.At |= exit & reported
	start.Partial |= exit & reported
	for _, f := range []engine.Field{engine.FieldCmdline, engine.FieldEnviron} {
		c.Fields[f].Whole.Bytes = procfs.MaxCmdline
	}
	c.Notes = append(c.Notes,
		fmt.Sprintf("an event is stamped by the wall clock of the latest timer interrupt: at most %v later than it happened, and earlier only by as much as such interrupts come late; "+
			"if that clock is set, when it is received", time.Duration(s.slack)),
		"no record has a CPU")
	if !always {
		c.Notes = append(c.Notes, "processes that are older than the first enabling of audit are not audited: boot with audit=1")
	} else {
		c.Notes = append(c.Notes, "booted with audit=1 the kernel counts as lost also what it does not keep for an auditd: of its own loss a lower bound is known")
	}
	c.Notes = append(c.Notes, notes...)
}
