package audit

import (
	"fmt"
	"time"

	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
)

// lateTick is more than the largest measured delay of a timer interrupt, in ns: some 300 ms in an
// emulated guest on a busy machine.
const lateTick = 1_000_000_000

// describe fills the capability table. always is set if audit was enabled at the boot. hidden is a
// note about rules of others.
func (s *Source) describe(always bool, hidden string) {
	const fork, exec, exit, ids = engine.EventFork, engine.EventExec, engine.EventExit, engine.EventIDChange
	c := &s.caps
	for k := range c.Kinds {
		c.Kinds[k].Via = "no system call that is recorded reports it"
	}
	kind := func(k engine.Kind, partial engine.Events, omits engine.Omission, via string) {
		c.Kinds[k] = engine.Capability{Origin: engine.OriginKernel, Via: via, Partial: partial, Omits: omits}
	}
	kind(engine.KindFork, fork, engine.OmitAny, "SYSCALL of fork, vfork, clone and clone3; not where /proc shows neither the caller nor the child, nor of callers in pid namespaces of their own, nor where the child did something else long before the call returned, as after vfork")
	kind(engine.KindExec, exec, 0, "SYSCALL and EXECVE of execve and execveat; not of programs that the kernel itself starts")
	kind(engine.KindExit, exit, engine.OmitEnds, "SYSCALL of exit_group; not of ends by exit(2) or a signal")
	kind(engine.KindIDChange, ids, engine.OmitIDs, "SYSCALL of setsid; not of set*uid and set*gid, whose records do not show which thread they changed")
	kind(engine.KindExecFailed, 0, 0, "SYSCALL and PATH; the path is unknown where the kernel refused it before it had a copy; not with EINTR, nor by seccomp(2); one that ends its process may be reported")
	kind(engine.KindGap, 0, 0, "missing serial numbers, and the kernel's count of records that it had no room for")

	var reported engine.Events
	for _, k := range []engine.Events{fork, exec, exit, ids} {
		if s.shared.Reports(k) {
			reported |= k
		}
	}
	for f := range engine.Field(engine.NumFields) {
		at := exec
		if atBirth.Has(f) {
			at |= fork
		}
		switch row := &c.Fields[f]; {
		case f == engine.FieldEnviron && !s.shared.Environ.Wanted():
			*row = source.NoEnviron
		case (s.proc.Readable() & atExec).Has(f):
			*row = engine.Capability{Origin: engine.OriginProc, Via: "/proc/PID; as of right after the event, if it lives so long", At: at & reported, Partial: at & reported}
		case atExec.Has(f):
			row.Via = "/proc does not show it, or shows another value than the host's"
		default:
			row.Via = "no record has it"
		}
	}
	brings := func(f engine.Field, at, partial engine.Events, via string) {
		c.Fields[f] = engine.Capability{Origin: engine.OriginKernel, Via: via, At: at & reported, Partial: partial & reported}
	}
	brings(engine.FieldPPID, fork|exec|exit, fork, "SYSCALL.ppid, of a fork pid; of clone3 /proc/PID/stat")
	brings(engine.FieldUIDs, fork|exec, 0, "SYSCALL.uid, euid")
	brings(engine.FieldSUID, fork|exec, 0, "SYSCALL.suid")
	brings(engine.FieldGIDs, fork|exec, 0, "SYSCALL.gid, egid")
	brings(engine.FieldSGID, fork|exec, 0, "SYSCALL.sgid")
	brings(engine.FieldLogin, fork|exec, 0, "SYSCALL.auid, ses")
	brings(engine.FieldComm, exec, 0, "SYSCALL.comm")
	brings(engine.FieldExecPath, exec, exec, "PATH.name")
	brings(engine.FieldArgs, exec, exec, "EXECVE")
	brings(engine.FieldExit, exit, exit, "the argument of exit_group, cached: a signal that came right before decides")
	c.Fields[engine.FieldExe].Via = "SYSCALL.exe, if the exec was asked for that path; else /proc/PID/exe"
	for f, at := range map[engine.Field]engine.Events{engine.FieldSID: ids, engine.FieldPGID: ids, engine.FieldStart: ids | exit} {
		c.Fields[f].At |= at & reported
		c.Fields[f].Partial |= at & reported
	}
	for _, f := range []engine.Field{engine.FieldArgs, engine.FieldEnviron} {
		c.Fields[f].Whole.Bytes = procfs.MaxCmdline
	}
	c.Stamps = engine.StampError{Early: lateTick, Late: s.wall.slack + wallError}
	c.Notes = append(c.Notes,
		fmt.Sprintf("an event is stamped by the wall clock of the latest timer interrupt: at most %v later than it happened, and earlier only by as much as such interrupts come late", time.Duration(s.wall.slack)),
		"no record has a CPU")
	if !always {
		c.Notes = append(c.Notes, "processes that are older than the first enabling of audit are not audited: boot with audit=1")
	}
	if s.loss.backlog.control == nil {
		c.Notes = append(c.Notes, "the kernel counts as lost also what it does not keep for an auditd: losses are a lower bound")
	}
	if hidden != "" {
		c.Notes = append(c.Notes, hidden)
	}
}
