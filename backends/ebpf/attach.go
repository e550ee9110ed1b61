package ebpf

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/pulse"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/kernelversion"
	"github.com/quark-linux/quark/internal/tracefs"
)

// hook is a raw tracepoint, its twin programs (see programs/twin.h) and the handler that both twins
// tail-call. If the kernel cannot preempt these programs, only the handler is attached.
type hook struct {
	kind                               engine.Kind
	tracepoint, program, twin, handler string
	place                              programsEventKind
	// unpreempted is the second program if the kernel can preempt raw tracepoint programs. It
	// runs on the raw tracepoint wakeupTracepoint, or on the perf event of the hook's
	// tracepoint.
	unpreempted string
}

// names returns the programs to load for the hook.
func (h *hook) names() []string {
	switch {
	case !preemptible():
		return []string{h.handler}
	case h.unpreempted != "" && kernelversion.AtLeast(preemptibleSince):
		return []string{h.handler, h.program, h.unpreempted}
	}
	return []string{h.handler, h.program, h.twin}
}

const (
	execTracepoint   = "sched_process_exec"
	wakeupTracepoint = "sched_wakeup_new"
)

// requiredHooks are the hooks that the source needs, unless their kind is left out. The hook of
// forks is the last.
var requiredHooks = []hook{
	{engine.KindExit, "sched_process_exit", programsProgQuarkExit, programsProgQuarkExitTwin,
		programsProgQuarkExitHandler, programsEventKindEVENT_EXIT, programsProgQuarkExitPerf},
	{engine.KindExec, execTracepoint, programsProgQuarkExec, programsProgQuarkExecTwin,
		programsProgQuarkTextHandler, programsEventKindEVENT_EXEC, programsProgQuarkExecPerf},
	{engine.KindFork, "sched_process_fork", programsProgQuarkFork, programsProgQuarkForkTwin,
		programsProgQuarkTextHandler, programsEventKindEVENT_FORK, programsProgQuarkForkWakeup},
}

var renameHook = hook{engine.KindSetProcTitle, "task_rename", programsProgQuarkRename, programsProgQuarkRenameTwin,
	programsProgQuarkRenameHandler, programsEventKindEVENT_COMM, ""}

// attachHook attaches a program and its twin, or the handler alone. The kernel runs the programs of
// a raw tracepoint in the order they were attached.
func (s *Source) attachHook(l *loader, h hook, programs map[string]*ebpf.Program) error {
	s.capabilities.Kinds[h.kind] = kernelVia("raw_tp/" + h.tracepoint)
	if !preemptible() {
		return s.attachRaw(h.tracepoint, programs[h.handler])
	}
	if err := s.maps[programsMapHandlers].Update(uint32(h.place), programs[h.handler], ebpf.UpdateAny); err != nil {
		return fmt.Errorf("place handler of %s: %w", h.tracepoint, err)
	}
	first := programs[h.program]
	if err := s.attachRaw(h.tracepoint, first); err != nil {
		return err
	}
	s.first = append(s.first, first)
	return s.attachSecond(l, h, programs)
}

// attachSecond attaches the second program of a hook.
func (s *Source) attachSecond(l *loader, h hook, programs map[string]*ebpf.Program) error {
	if p := programs[h.unpreempted]; p != nil {
		if via, err := s.attachUnpreempted(h, p); err == nil {
			s.capabilities.Kinds[h.kind].Via += ", " + via
			return nil
		}
	}
	if programs[h.twin] == nil {
		var err error
		if programs, err = s.load(l, h.twin); err != nil {
			return err
		}
	}
	return s.attachRaw(h.tracepoint, programs[h.twin])
}

// preemptibleSince is a variable so that a test can change it.
var preemptibleSince = kernelversion.PreemptibleTracepoints

// preemptible reports whether the kernel can preempt raw tracepoint programs. Other kernels skip
// none of these programs, because interrupts do not hit their tracepoints.
func preemptible() bool {
	return kernelversion.AtLeast(preemptibleSince) || kernelversion.Realtime()
}

// attachUnpreempted attaches the second program of a hook at a place where the kernel does not
// preempt it, and returns the name of that place.
func (s *Source) attachUnpreempted(h hook, p *ebpf.Program) (via string, err error) {
	if p.Type() == ebpf.RawTracepoint {
		return "raw_tp/" + wakeupTracepoint, s.attachRaw(wakeupTracepoint, p)
	}
	fs, err := tracefs.Open()
	if err != nil {
		return "", err
	}
	defer fs.Close()
	event, err := fs.Event("sched", h.tracepoint)
	if err != nil {
		return "", err
	}
	return "tracepoint/sched/" + h.tracepoint, s.events.attach(event, p)
}

// attachWorkers attaches the program that reports threads of a process made by the kernel.
func (s *Source) attachWorkers(l *loader) error {
	if kernelversion.Realtime() && !kernelversion.AtLeast("6.12") {
		s.note("threads that the kernel makes for io_uring and vhost have no FORK: before Linux 6.12 PREEMPT_RT has no ring for programs that run with interrupts disabled")
		return nil
	}
	programs, err := s.load(l, programsProgQuarkForkWorker)
	if err != nil {
		return err
	}
	return s.attachRaw(wakeupTracepoint, programs[programsProgQuarkForkWorker])
}

// attachRaw attaches a program to a raw tracepoint.
func (s *Source) attachRaw(tracepoint string, program *ebpf.Program) error {
	lnk, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: tracepoint, Program: program})
	if err != nil {
		return fmt.Errorf("attach to raw tracepoint %s: %w", tracepoint, err)
	}
	s.links = append(s.links, lnk)
	onAttach(tracepoint)
	return nil
}

// onAttach is called after each attachment. A test sets it.
var onAttach = func(tracepoint string) {}

func (s *Source) openRename(l *loader) {
	err := checkExecDetection(l)
	if err == nil {
		var programs map[string]*ebpf.Program
		if programs, err = s.load(l, renameHook.names()...); err == nil {
			err = s.attachHook(l, renameHook, programs)
		}
	}
	if err != nil {
		s.capabilities.Kinds[renameHook.kind] = without(err)
	}
}

// openCgroupChange attaches to the tracepoint that follows each move of a process. The kernel holds
// locks meanwhile, so that it skips no run of the program.
func (s *Source) openCgroupChange(l *loader) {
	const tracepoint = "cgroup_attach_task"
	kind := &s.capabilities.Kinds[engine.KindCgroupChange]
	from := cgroupSource()
	if from == programsCgroupSourceCGROUP_NONE {
		*kind = without(errNoCgroup)
		return
	}
	programs, err := s.load(l, programsProgQuarkCgroup)
	if err == nil {
		err = s.attachRaw(tracepoint, programs[programsProgQuarkCgroup])
	}
	if err != nil {
		*kind = without(err)
		return
	}
	*kind = kernelVia("raw_tp/" + tracepoint + ", after the move; not of single threads")
	if from == programsCgroupSourceCGROUP_PIDS {
		kind.Via += "; not a rename of a cgroup, which cgroup v1 allows"
		kind.Partial = engine.EventCgroupChange
	}
}

var errNoCgroup = errors.New("no cgroup2 and no pids hierarchy in /proc/self/cgroup")

// checkExecDetection returns an error if the programs cannot distinguish changes by exec from
// changes by the process itself. To distinguish them they read the owner of a mutex.
func checkExecDetection(l *loader) error {
	if missing := missingMember(l.types, "mutex.owner|rt_mutex_base.owner|rt_mutex.owner"); missing != "" {
		return errors.New("cannot leave out changes by exec: the kernel has no " + missing)
	}
	return nil
}

// openChanges attaches to the functions that change ids and namespaces. A kprobe slows down only
// processes that change them. A program at a syscall's exit slows down every syscall of every
// process, so it is the second choice.
func (s *Source) openChanges(l *loader) {
	err := checkExecDetection(l)
	for kind, variable := range map[engine.Events]string{
		engine.EventIDChange: programsVarWantIds, engine.EventNSChange: programsVarWantUserNs,
	} {
		if err == nil && s.shared.Reports(kind) {
			err = l.set(variable, uint8(1))
		}
	}
	if err == nil {
		err = s.probeFunction(l, programsProgQuarkCommitCreds, "commit_creds", link.Kprobe)
	}
	if s.shared.Reports(engine.EventIDChange) {
		s.openIDChange(l, err)
	}
	if s.shared.Reports(engine.EventNSChange) {
		s.openNSChange(l, err)
	}
}

// openNSChange attaches to the function that changes all namespaces but the user namespace, if
// there is no error of the probe for the latter. Otherwise it attaches to the entries and exits of
// the syscalls, if NS_CHANGE was asked for by name.
func (s *Source) openNSChange(l *loader, err error) {
	kind := &s.capabilities.Kinds[engine.KindNSChange]
	if err == nil {
		const function = "switch_task_namespaces"
		*kind = kernelVia("kprobe/" + function + ", kprobe/commit_creds")
		if err = s.probeFunction(l, programsProgQuarkSwitchNamespaces, function, link.Kprobe); err != nil {
			*kind = kernelVia("kprobe/commit_creds; only user namespaces: " + source.OneLine(err))
			kind.Partial = engine.EventNSChange
		}
		return
	}
	if !s.shared.Asked.Has(engine.EventNSChange) {
		*kind = without(fmt.Errorf("needs Options.Kinds, as it slows all syscalls down: %w", err))
		return
	}
	if e := s.traceNamespaces(l); e != nil {
		*kind = without(errors.Join(err, e))
		return
	}
	*kind = kernelVia("tracepoint/syscalls/sys_{enter,exit}_{setns,unshare}, which slow all syscalls down a little; not of 32-bit syscalls: " + source.OneLine(err))
	kind.Partial = engine.EventNSChange
}

func (s *Source) traceNamespaces(l *loader) error {
	fs, err := tracefs.Open()
	if err != nil {
		return err
	}
	defer fs.Close()
	loaded := map[string]*ebpf.Program{}
	for _, t := range []struct{ name, value, program string }{
		{"sys_exit_setns", "ret", programsProgQuarkExitSetns}, {"sys_exit_unshare", "ret", programsProgQuarkExitUnshare},
		{"sys_enter_setns", "fd", programsProgQuarkEnterNamespaces}, {"sys_enter_unshare", "unshare_flags", programsProgQuarkEnterNamespaces},
	} {
		if err := s.traceSyscall(l, fs, loaded, t.name, t.value, t.program); err != nil {
			return err
		}
	}
	return nil
}

// openIDChange attaches to the functions that change ids. idsErr is the error of the probe for user
// and group ids.
func (s *Source) openIDChange(l *loader, idsErr error) {
	kind := &s.capabilities.Kinds[engine.KindIDChange]
	var vias []string
	var missing []error

	if idsErr == nil {
		vias = append(vias, "kprobe/commit_creds")
	}
	sidErr := s.probeFunction(l, programsProgQuarkKsysSetsid, "ksys_setsid", link.Kretprobe)
	if sidErr == nil {
		vias = append(vias, "kretprobe/ksys_setsid")
	}
	pgidErr := s.probeFunction(l, programsProgQuarkChangePid, "change_pid", link.Kprobe)
	if pgidErr == nil {
		vias = append(vias, "kprobe/change_pid")
	}
	var traced []tracedSyscall
	if idsErr != nil {
		traced = append(traced, idSyscalls...)
	}
	if sidErr != nil {
		traced = append(traced, sidSyscall)
	}
	if len(traced) > 0 {
		via, err := s.traceSyscalls(l, traced)
		if via != "" {
			vias = append(vias, via)
			s.capabilities.Notes = append(s.capabilities.Notes,
				fmt.Sprintf("without kprobes, ID_CHANGE comes from the exits of syscalls: this slows all syscalls down a little, and changes through 32-bit syscalls are not seen: %s",
					source.OneLine(cmp.Or(idsErr, sidErr))))
		}
		if err != nil {
			missing = append(missing, err)
		}
	}
	switch {
	case len(vias) == 0:
		*kind = without(errors.Join(append([]error{idsErr}, missing...)...))
	default:
		*kind = kernelVia(strings.Join(vias, ", "))
		if len(traced) > 0 {
			kind.Partial = engine.EventIDChange
			// The call's exit does not show the earlier ids.
			s.capabilities.SameIDs = true
			kind.Via += "; not those of 32-bit syscalls"
		}
		if pgidErr != nil {
			kind.Omits = engine.OmitPGID
			kind.Via += "; not of setpgid(2)"
		}
		for _, err := range missing {
			s.capabilities.Notes = append(s.capabilities.Notes, "ID_CHANGE is incomplete: "+source.OneLine(err))
		}
	}
}

// kprobeType exists if the kernel has kprobes as perf events. Such a kprobe ends when its
// descriptor is closed, while a kprobe of tracefs would outlive a killed process.
const kprobeType = "/sys/bus/event_source/devices/kprobe/type"

// checkKprobes returns the reason if kprobes cannot be used. Otherwise it starts to monitor them.
func (s *Source) checkKprobes(l *loader) error {
	if _, err := os.Stat(kprobeType); err != nil {
		return errors.New("the kernel has no kprobes (CONFIG_KPROBE_EVENTS)")
	}
	if err := pulse.Silenced(); err != nil {
		return err
	}
	err := s.openPulse(l.plain)
	if err != nil && !errors.Is(err, pulse.ErrSilent) {
		s.note("quark would not notice if something disabled the kprobes: " + source.OneLine(err))
		err = nil
	}
	return err
}

func (s *Source) probeFunction(l *loader, program, function string,
	attach func(string, *ebpf.Program, *link.KprobeOptions) (link.Link, error)) error {
	if s.noKprobes != nil {
		return s.noKprobes
	}
	programs, err := s.load(l, program)
	if err != nil {
		return err
	}
	lnk, err := attach(function, programs[program], nil)
	if errors.Is(err, os.ErrPermission) {
		err = fmt.Errorf("%w: needs CAP_SYS_ADMIN, or a kernel.perf_event_paranoid of at most 2", unix.EACCES)
	}
	if err != nil {
		return fmt.Errorf("probe %s: %w", function, err)
	}
	s.links = append(s.links, lnk)
	s.alone = append(s.alone, programs[program])
	return nil
}

// tracedSyscall is a syscall with a program that runs at its exit.
type tracedSyscall struct{ name, program string }

var (
	idSyscalls = []tracedSyscall{
		{"setuid", programsProgQuarkExitSetuid}, {"setreuid", programsProgQuarkExitSetuid}, {"setresuid", programsProgQuarkExitSetuid},
		{"setgid", programsProgQuarkExitSetgid}, {"setregid", programsProgQuarkExitSetgid}, {"setresgid", programsProgQuarkExitSetgid},
	}
	sidSyscall = tracedSyscall{"setsid", programsProgQuarkExitSetsid}
)

// traceSyscalls attaches to the exits of syscalls. It returns the name of the attached exits in the
// capability table, and an error if an exit could not be attached.
func (s *Source) traceSyscalls(l *loader, calls []tracedSyscall) (via string, err error) {
	fs, err := tracefs.Open()
	if err != nil {
		return "", err
	}
	defer fs.Close()

	var names []string
	loaded := map[string]*ebpf.Program{}
	for _, c := range calls {
		if e := s.traceSyscall(l, fs, loaded, "sys_exit_"+c.name, "ret", c.program); e != nil {
			err = cmp.Or(err, e)
			continue
		}
		names = append(names, c.name)
	}
	if missing := len(calls) - len(names); missing > 1 {
		err = fmt.Errorf("%w, and %d more", err, missing-1)
	}
	return syscallsVia(names), err
}

// traceSyscall attaches a program to a syscall's tracepoint. The program reads the field named
// value.
func (s *Source) traceSyscall(l *loader, fs *tracefs.FS, loaded map[string]*ebpf.Program, name, value, program string) error {
	event, err := fs.Event("syscalls", name)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("no tracepoint %s: needs CONFIG_FTRACE_SYSCALLS", name)
	}
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("%w: needs root or CAP_DAC_READ_SEARCH", err)
	}
	if err != nil {
		return err
	}
	at, ok := event.Field(value)
	if !ok || at.Size != 8 {
		return fmt.Errorf("tracepoint %s has no 8-byte field %s", name, value)
	}
	p := loaded[program]
	if p == nil {
		// The offset is the same for all syscalls. It depends on the fields that start
		// every record, and some distributions add fields there.
		if err := l.set(programsVarSyscallOffset, uint32(at.Offset)); err != nil {
			return err
		}
		programs, err := s.load(l, program)
		if err != nil {
			return err
		}
		p = programs[program]
		loaded[program] = p
		// If the program misses the entry of a call, the program at the exit counts the
		// event as lost.
		if program != programsProgQuarkEnterExecve && program != programsProgQuarkEnterExecveat && program != programsProgQuarkEnterNamespaces {
			s.alone = append(s.alone, p)
		}
	}
	if err := s.events.attach(event, p); err != nil {
		return fmt.Errorf("attach to tracepoint %s: %w", name, err)
	}
	return nil
}

// openPtrace attaches to the function that reports tracers to the proc connector, or else to the
// entry and exit of ptrace(2).
func (s *Source) openPtrace(l *loader) {
	const function = "proc_ptrace_connector"
	kind := &s.capabilities.Kinds[engine.KindPtrace]
	err := s.probeFunction(l, programsProgQuarkPtraceConnector, function, link.Kprobe)
	if err == nil {
		*kind = kernelVia("kprobe/" + function)
		return
	}
	if e := s.tracePtrace(l); e != nil {
		*kind = without(errors.Join(err, e))
		return
	}
	*kind = kernelVia("tracepoint/syscalls/sys_{enter,exit}_ptrace, which slow all syscalls down a little; not of 32-bit tracers: " + source.OneLine(err))
	kind.Partial = engine.EventPtrace
}

func (s *Source) tracePtrace(l *loader) error {
	for _, member := range []string{"task_struct.ptraced", "task_struct.ptrace_entry", "task_struct.thread_pid", "pid.level"} {
		if missing := missingMember(l.types, member); missing != "" {
			return errors.New("the kernel's types have no " + missing)
		}
	}
	fs, err := tracefs.Open()
	if err != nil {
		return err
	}
	defer fs.Close()
	loaded := map[string]*ebpf.Program{}
	if err := s.traceSyscall(l, fs, loaded, "sys_exit_ptrace", "ret", programsProgQuarkExitPtrace); err != nil {
		return err
	}
	return s.traceSyscall(l, fs, loaded, "sys_enter_ptrace", "request", programsProgQuarkEnterPtrace)
}

// openFailedExecs attaches to the exits of execve(2) and execveat(2), or to their entries and
// exits. A return probe of a function would not slow down other system calls. But an exec can take
// long, and the kernel silently skips returns while many calls are in progress. The kernel skips a
// raw tracepoint less often, but would run its program at each system call.
func (s *Source) openFailedExecs(l *loader) {
	kind := &s.capabilities.Kinds[engine.KindExecFailed]
	var ends string
	fs, err := tracefs.Open()
	if err == nil {
		defer fs.Close()
		ends, err = s.traceExecs(l, fs)
	}
	if err != nil {
		*kind = without(err)
		return
	}
	*kind = kernelVia("tracepoint/syscalls/" + ends + "_{execve,execveat}, which slow all syscalls down a little; " +
		"each path is cached, as it is read after the call; not of 32-bit programs")
	kind.Partial = engine.EventExecFailed
}

// traceExecs attaches to the exits, where the task's registers still have the arguments. Programs
// can read the registers from Linux 5.15 on, if the kernel has its own BTF. Otherwise it attaches
// to the entries too. At an entry, some kernels run no program if reading the path would have to
// wait.
func (s *Source) traceExecs(l *loader, fs *tracefs.FS) (ends string, err error) {
	loaded := map[string]*ebpf.Program{}
	if s.traceSyscall(l, fs, loaded, "sys_exit_execve", "ret", programsProgQuarkEndExecve) == nil {
		return "sys_exit", s.traceSyscall(l, fs, loaded, "sys_exit_execveat", "ret", programsProgQuarkEndExecveat)
	}
	l.spec.Maps[programsMapExecCalls] = l.execCalls
	for _, t := range []struct{ name, value, program string }{
		{"sys_exit_execve", "ret", programsProgQuarkExitExecve}, {"sys_exit_execveat", "ret", programsProgQuarkExitExecve},
		{"sys_enter_execve", "filename", programsProgQuarkEnterExecve}, {"sys_enter_execveat", "fd", programsProgQuarkEnterExecveat},
	} {
		if err := s.traceSyscall(l, fs, loaded, t.name, t.value, t.program); err != nil {
			return "", err
		}
	}
	return "sys_{enter,exit}", nil
}

// perfEvents are the descriptors of tracepoints with a program. Closing one detaches its program.
type perfEvents []int

func (p *perfEvents) attach(event *tracefs.Event, prog *ebpf.Program) error {
	fd, err := event.Open()
	if err != nil {
		return err
	}
	if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_BPF, prog.FD()); err != nil {
		unix.Close(fd)
		return fmt.Errorf("set program: %w", err)
	}
	*p = append(*p, fd)
	return nil
}
