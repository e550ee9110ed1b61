package tracepoint

import (
	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/kernelversion"
)

// describe fills the capability table. failed is why failed execs are not told.
func (s *Source) describe(failed error) {
	c := &s.caps
	for k := range c.Kinds {
		c.Kinds[k].Via = "no tracepoint tells it"
	}
	c.Kinds[engine.KindCoreDump].Via = "of few ends the status is known"
	c.Kinds[engine.KindGap] = kernel("perf's lost-records and the events' counts; of lost new names, only that there may be some", 0)
	c.Kinds[engine.KindFork] = kernel("tracepoint/task/task_newtask", 0)
	c.Kinds[engine.KindExec] = kernel("tracepoint/sched/sched_process_exec", 0)
	if !kernelversion.AtLeast("5.16") {
		c.Kinds[engine.KindExec].Via += "; not of a path of about 2,000 bytes or more, for which the kernel has no room before Linux 5.16"
		c.Kinds[engine.KindExec].Partial = engine.EventExec
	}
	c.Kinds[engine.KindExit] = kernel("tracepoint/sched/sched_process_exit, group_dead", 0)
	if !s.dead {
		c.Kinds[engine.KindExit].Via = "tracepoint/sched/sched_process_exit of the last thread, by task_newtask and /proc"
	}
	c.Kinds[engine.KindComm] = kernel("PERF_RECORD_COMM", 0)
	if failed != nil {
		c.Kinds[engine.KindExecFailed].Via = source.OneLine(failed)
	} else {
		c.Kinds[engine.KindExecFailed] = kernel("tracepoint/syscalls/sys_exit_{execve,execveat}, which slow all syscalls down a little; "+
			"not of 32-bit programs; each path is unknown", 0)
		c.Kinds[engine.KindExecFailed].Partial = engine.EventExecFailed
	}
	s.describeFields()
	c.Notes = append(c.Notes, "the kernel makes no record of a tracepoint, and counts none, while a BPF program on it returns 0, as that of exitsnoop(8) does, "+
		"or can't run as the CPU is in the middle of another one, or of a change of a map",
		"ids, sessions, tracers and core dumps can change unseen: what /proc has of them is of the last FORK or EXEC")
}

func kernel(via string, at engine.Events) engine.Capability {
	return engine.Capability{Origin: engine.OriginKernel, Via: via, At: at}
}

func (s *Source) describeFields() {
	fields := &s.caps.Fields
	var reported engine.Events
	for _, k := range []engine.Events{engine.EventFork, engine.EventExec, engine.EventExit, engine.EventSetProcTitle} {
		if s.shared.Reports(k) {
			reported |= k
		}
	}
	const read = engine.EventFork | engine.EventExec
	for f := range engine.Field(engine.NumFields) {
		row := &fields[f]
		switch {
		case f == engine.FieldEnviron && !s.shared.Environ.Wanted():
			*row = source.NoEnviron
		case (s.proc.Readable() &^ ofRecords).Has(f):
			*row = engine.Capability{Origin: engine.OriginProc, Via: "/proc/PID; as of right after the event, if it lives so long", At: read & reported}
		case engine.FieldsUsage.Has(f):
			row.Via = "no record has it, and /proc does not when a process ends"
		case (procfs.Readable &^ ofRecords).Has(f):
			row.Via = "/proc does not show it, or not what is true for the host"
		}
	}
	for _, f := range []engine.Field{engine.FieldUserNS, engine.FieldCgroupNS, engine.FieldTimeNS} {
		fields[f].Partial = fields[f].At
		fields[f].Via += "; only where the uts, ipc, mount or net namespace is not that of the first process"
	}
	if login := &fields[engine.FieldLogin]; login.Origin != engine.OriginNone {
		login.At &= engine.EventExec
		login.Partial = login.At
		login.Via += "; only of session leaders"
	}
	fields[engine.FieldStart].At |= engine.EventExit & reported
	fields[engine.FieldStart].Partial = engine.EventExit
	fields[engine.FieldPPID].Via = "/proc/PID/stat; at a fork the record's, but for one with CLONE_PARENT"
	fields[engine.FieldParentTID] = kernel("the record's thread; unknown of a fork with CLONE_PARENT", engine.EventFork&reported)
	fields[engine.FieldParentTID].Partial = engine.EventFork
	fields[engine.FieldComm] = kernel("task_newtask, PERF_RECORD_COMM, sched_process_exit if the leader ends last",
		(engine.EventFork|engine.EventExec|engine.EventSetProcTitle|engine.EventExit)&reported)
	fields[engine.FieldComm].Partial = engine.EventExec | engine.EventExit
	fields[engine.FieldExecPath] = kernel("sched_process_exec.filename", engine.EventExec&reported)
	fields[engine.FieldCmdline].Whole.Bytes = procfs.MaxCmdline
	fields[engine.FieldEnviron].Whole.Bytes = procfs.MaxCmdline
	exit := &fields[engine.FieldExit]
	if exit.Via = "before Linux 6.1 /proc shows the leader's status, and no record has one"; s.showStatus {
		*exit = engine.Capability{Origin: engine.OriginProc, Via: "/proc/PID/stat of a process that nobody has waited for yet",
			At: engine.EventExit & reported, Partial: engine.EventExit}
	}
}
