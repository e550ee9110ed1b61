package ebpf

import (
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/btfhub"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/proctext"
)

func kernelVia(via string) engine.Capability {
	return engine.Capability{Origin: engine.OriginKernel, Via: via}
}

func without(err error) engine.Capability {
	return engine.Capability{Origin: engine.OriginNone, Via: source.OneLine(err)}
}

// syscallsVia returns the name of the tracepoints at the exits of syscalls.
func syscallsVia(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "tracepoint/syscalls/sys_exit_{" + strings.Join(names, ",") + "}"
}

// describeFields fills in the fields of the capability table: the fields that the programs read,
// without those that need a member which the kernel's types lack. low is set if the programs have
// lowLimits.
func (s *Source) describeFields(types *btf.Spec, cgroup programsCgroupSource, low bool) {
	var at engine.Events // the kinds with an attached program
	for k, c := range s.capabilities.Kinds {
		if c.Origin == engine.OriginNone || !s.shared.Reports(engine.Kind(k).Events()) {
			if c.Via == "" {
				s.capabilities.Kinds[k].Via = "no program reports it"
			}
			continue
		}
		at |= engine.Kind(k).Events()
	}
	for _, f := range fieldSources {
		if f.at.Has(engine.EventExit) && f.field != engine.FieldExit && !engine.FieldsUsage.Has(f.field) {
			f.at |= engine.EventCoreDump
		}
		c := engine.Capability{Origin: engine.OriginKernel, Via: f.via, At: f.at & at, Whole: wholeTexts[f.field]}
		if extent, ok := lowExtents[f.field]; ok && low {
			c.Whole = extent
		}
		if f.field != engine.FieldUserNS && engine.FieldsNS.Has(f.field) {
			c.Partial = (engine.EventExit | engine.EventCoreDump) & at
		}
		if f.field == engine.FieldComm { // of a change of the process group by the parent
			c.Partial = engine.EventIDChange & at
		}
		if engine.FieldsUsage.Has(f.field) {
			c.Partial = engine.EventExit & at // threads that exit at the same time
		}
		if (f.field == engine.FieldExeFile || f.field == engine.FieldStdio) && missingMember(types, "nsproxy.time_ns") != "" {
			c.Via += source.OverlayInodes
			c.Partial = c.At
		}
		if f.field == engine.FieldExit {
			c.Unproven = engine.UnprovenLateReboot
			if missingMember(types, "pid_namespace.reboot") != "" {
				c.Via += " (unknown of inits of pid namespaces)"
				c.Partial = engine.EventExit & at
			}
		}
		if missing := missingMember(types, f.needs); missing != "" {
			c = engine.Capability{Origin: engine.OriginNone, Via: "the kernel has no " + missing}
		}
		if f.field == engine.FieldEnviron && !s.shared.Environ.Wanted() {
			c = source.NoEnviron
		}
		s.capabilities.Fields[f.field] = c
	}
	s.capabilities.IDsBefore = missingMember(types, "file.f_cred") == ""
	for _, c := range []struct{ needs, without string }{
		{"dentry.d_seq", "a path may never have existed, if its directories are renamed back and forth while it is read"},
		{"task_struct.self_exec_id", "the EXIT of a process whose exec failed after the point of no return shows the previous image"},
	} {
		if missing := missingMember(types, c.needs); missing != "" {
			s.capabilities.Notes = append(s.capabilities.Notes, c.without+": the kernel's types have no "+missing)
		}
	}
	if cgroup == programsCgroupSourceCGROUP_NONE {
		s.capabilities.Fields[engine.FieldCgroup] = engine.Capability{
			Origin: engine.OriginNone, Via: errNoCgroup.Error(),
		}
	}
}

const (
	atBirth  = engine.EventFork | engine.EventExec
	atExec   = engine.EventExec
	atAll    = engine.EventFork | engine.EventExec | engine.EventExit | engine.EventIDChange | engine.EventSetProcTitle | engine.EventNSChange
	atExit   = engine.EventExit
	anyOther = "|" // separates alternatives: one member is enough
)

// fieldSources lists for each field where it is read, and the members of the kernel's types that
// this needs. It leaves out members that every kernel since 5.8 has.
var fieldSources = []struct {
	field engine.Field
	via   string
	at    engine.Events
	needs string
}{
	{engine.FieldStart, "task.group_leader.start_boottime", atAll | engine.EventPtrace | engine.EventCgroupChange, "task_struct.start_boottime|task_struct.real_start_time"},
	{engine.FieldPPID, "task.group_leader.real_parent.tgid", atAll | engine.EventReparent, ""},
	{engine.FieldPGID, "task.signal.pids[PGID]", atAll, "signal_struct.pids"},
	{engine.FieldSID, "task.signal.pids[SID]", atAll, "signal_struct.pids"},
	{engine.FieldUIDs, "task.real_cred", atAll, ""},
	{engine.FieldSUID, "task.real_cred", atAll, ""},
	{engine.FieldGIDs, "task.real_cred", atAll, ""},
	{engine.FieldSGID, "task.real_cred", atAll, ""},
	{engine.FieldCaps, "task.real_cred", atAll, ""},
	{engine.FieldTTY, "task.signal.tty", atAll, "signal_struct.tty"},
	{engine.FieldUTSNS, "task.nsproxy.uts_ns (at EXIT only if the leader ended last)", atAll, "nsproxy.uts_ns"},
	{engine.FieldIPCNS, "task.nsproxy.ipc_ns (at EXIT only if the leader ended last)", atAll, "nsproxy.ipc_ns"},
	{engine.FieldMntNS, "task.nsproxy.mnt_ns (at EXIT only if the leader ended last)", atAll, "nsproxy.mnt_ns"},
	{engine.FieldNetNS, "task.nsproxy.net_ns (at EXIT only if the leader ended last)", atAll, "nsproxy.net_ns"},
	{engine.FieldComm, "task.comm", atAll, ""},
	{engine.FieldExe, "task.mm.exe_file.f_path", atExec, "mm_struct.exe_file"},
	{engine.FieldArgs, "task.mm.arg_start", atExec, ""},
	{engine.FieldCwd, "task.fs.pwd", atBirth, ""},
	{engine.FieldCgroup, "task.cgroups", atBirth | engine.EventCgroupChange, "kernfs_node.parent|kernfs_node.__parent"},
	{engine.FieldParentSignal, "task.group_leader.exit_signal", atAll, ""},
	{engine.FieldLogin, "task.loginuid and task.sessionid", atAll, "task_struct.loginuid"},
	{engine.FieldNoNewPrivs, "task.atomic_flags", atAll, "task_struct.atomic_flags"},
	{engine.FieldSeccomp, "task.seccomp.mode", atAll, "task_struct.seccomp.mode"},
	{engine.FieldExeFile, "task.mm.exe_file.f_inode", atExec, "inode.i_ctime|inode.__i_ctime|inode.i_ctime_sec"},
	{engine.FieldStdio, "task.files.fdt.fd, f_inode of the first three", atExec, "socket_alloc.vfs_inode"},
	{engine.FieldExecPath, "task.mm.env_end", atExec, "mm_struct.env_end"},
	{engine.FieldPIDNS, "task.group_leader.thread_pid.numbers", atAll, "upid.ns"},
	{engine.FieldUserNS, "task.real_cred.user_ns", atAll, "cred.user_ns"},
	{engine.FieldCgroupNS, "task.nsproxy.cgroup_ns (at EXIT only if the leader ended last)", atAll, "nsproxy.cgroup_ns"},
	{engine.FieldTimeNS, "task.nsproxy.time_ns (at EXIT only if the leader ended last)", atAll, "nsproxy.time_ns"},
	{engine.FieldEnviron, "task.mm.env_start", atExec, "mm_struct.env_start"},
	{engine.FieldBirthParentTID, "task.real_parent.pid", engine.EventFork, ""},
	{engine.FieldCPUTime, "task.se.sum_exec_runtime, task.utime and stime of each thread, divided as getrusage(2) does", atExit, "signal_struct.sum_sched_runtime"},
	{engine.FieldPeakRSS, "task.signal.maxrss (unknown if threads that end together are not at the same point)", atExit, "signal_struct.sum_sched_runtime"},
	{engine.FieldIO, "task.ioac of each thread (unknown if threads were released and children waited for)", atExit, "signal_struct.cmaxrss"},
	{engine.FieldExit, "task.signal.group_exit_code or task.group_leader.exit_code", atExit, ""},
}

// wholeTexts are the lengths up to which texts are never cut (text.h). A path takes one of
// PATH_STEPS for each name and each mount. A path is cut if the rest of PATH_MAX has no room for
// the longest name.
var wholeTexts = [engine.NumFields]engine.Extent{
	engine.FieldEnviron:  {Bytes: 20480},
	engine.FieldExe:      {Bytes: 3800, Names: 128},
	engine.FieldCwd:      {Bytes: 3800, Names: 128},
	engine.FieldCgroup:   {Bytes: 3800, Names: 60},
	engine.FieldArgs:     {Bytes: 20480},
	engine.FieldExecPath: {Bytes: 4096},
}

// reparents returns the row of REPARENT.
func reparents(types *btf.Spec) engine.Capability {
	for _, member := range []string{"task_struct.children", "task_struct.thread_pid", "signal_struct.has_child_subreaper", "pid_namespace.child_reaper"} {
		if missing := missingMember(types, member); missing != "" {
			return engine.Capability{Origin: engine.OriginNone, Via: "the kernel has no " + missing}
		}
	}
	return kernelVia("the EXIT of the parent: task.children, and the subreaper among 8 ancestors, else process 1 of the pid namespace")
}

// missingMember returns "" if the types have a member of needs, else all members of needs. needs is
// TYPE.MEMBER, or alternatives separated by anyOther.
func missingMember(types *btf.Spec, needs string) string {
	for one := range strings.SplitSeq(needs, anyOther) {
		if needs == "" || btfhub.HasMember(types, one) {
			return ""
		}
	}
	return strings.ReplaceAll(needs, anyOther, " and no ")
}

// cgroupSource returns the hierarchy of cgroup paths. Package procfs reads the same hierarchy from
// /proc.
func cgroupSource() programsCgroupSource {
	return map[proctext.Hierarchy]programsCgroupSource{
		proctext.UnifiedCgroup: programsCgroupSourceCGROUP_V2,
		proctext.PIDsCgroup:    programsCgroupSourceCGROUP_PIDS,
	}[proctext.OwnHierarchy()]
}
