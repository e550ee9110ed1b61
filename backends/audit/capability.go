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
		c.Kinds[k].Via = "no recorded system call reports it"
	}
	kind := func(k engine.Kind, partial engine.Events, omits engine.Omission, via string) {
		c.Kinds[k] = engine.Capability{Origin: engine.OriginKernel, Via: via, Partial: partial, Omits: omits}
	}
	kind(engine.KindFork, fork, engine.OmitAny, "SYSCALL of fork, vfork, clone and clone3; not if /proc shows neither the caller nor the child, if the caller is in another pid namespace, or if the child acts long before the call returns, as after vfork")
	kind(engine.KindExec, exec, 0, "SYSCALL and EXECVE of execve and execveat; not if the kernel starts the program")
	kind(engine.KindExit, exit, engine.OmitEnds, "SYSCALL of exit_group; not if exit(2) or a signal ends the process")
	kind(engine.KindIDChange, ids, engine.OmitIDs, "SYSCALL of setsid; not of set*uid and set*gid, whose records do not show which thread they changed")
	kind(engine.KindExecFailed, 0, 0, "SYSCALL and PATH; the path is unknown if the kernel rejected it before it copied it; not for EINTR and seccomp(2); also some failures that end the process")
	kind(engine.KindGap, 0, 0, "missing serial numbers, and the kernel's count of dropped records")

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
			*row = engine.Capability{Origin: engine.OriginProc, Via: "/proc/PID, read right after the event if the process still exists", At: at & reported, Partial: at & reported}
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
	brings(engine.FieldExit, exit, exit, "the argument of exit_group, cached: a signal right before the call sets another status")
	c.Fields[engine.FieldExe].Via = "SYSCALL.exe if it is the path that the exec was called with; else /proc/PID/exe"
	for f, at := range map[engine.Field]engine.Events{engine.FieldSID: ids, engine.FieldPGID: ids, engine.FieldStart: ids | exit} {
		c.Fields[f].At |= at & reported
		c.Fields[f].Partial |= at & reported
	}
	for _, f := range []engine.Field{engine.FieldArgs, engine.FieldEnviron} {
		c.Fields[f].Whole.Bytes = procfs.MaxCmdline
	}
	c.Stamps = engine.StampError{Early: lateTick, Late: s.wall.slack + wallError}
	c.Notes = append(c.Notes,
		fmt.Sprintf("the time of an event is the wall clock at the latest timer interrupt: it is at most %v too late, and too early by at most the delay of the interrupt", time.Duration(s.wall.slack)),
		"no record has a CPU")
	if !always {
		c.Notes = append(c.Notes, "processes that started before audit was first enabled are not audited: boot with audit=1")
	}
	if s.loss.backlog.control == nil {
		c.Notes = append(c.Notes, "the kernel also counts records that it does not keep for an auditd as lost: losses are a lower bound")
	}
	if hidden != "" {
		c.Notes = append(c.Notes, hidden)
	}
}
