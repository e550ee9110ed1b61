package ebpf

import (
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/btfhub"
	"github.com/quark-linux/quark/internal/kernelversion"
	"github.com/quark-linux/quark/internal/tracefs"
)

// variantHook is where a program of programs/variants.h is attached: to a tracepoint, or to the
// entry of a function.
type variantHook struct {
	kind          engine.Kind
	program       string
	group, target string // the group is of a plain tracepoint
	instead       string // of target, where the kernel has none

	// forLeadersOnly is set if the program is in place of that of execs where these are not
	// reported.
	forLeadersOnly bool
	// fields sets what the program has to know of a record.
	fields func(*loader, *tracefs.Event) error
}

// variant is a way to attach.
type variant struct {
	prefix string // of the names in the capability table
	kind   ebpf.ProgramType
	at     ebpf.AttachType
	hooks  []variantHook // that of births is the last
	rename variantHook
}

var variants = map[source.Attach]*variant{
	source.AttachBTF: {
		prefix: "tp_btf", kind: ebpf.Tracing, at: ebpf.AttachTraceRawTp,
		hooks: []variantHook{
			{kind: engine.KindExit, program: programsProgQuarkVariantExit, target: "sched_process_exit"},
			{kind: engine.KindExec, program: programsProgQuarkVariantExec, target: execTracepoint},
			{kind: engine.KindExec, program: programsProgQuarkVariantExecLeader, target: execTracepoint, forLeadersOnly: true},
			{kind: engine.KindFork, program: programsProgQuarkVariantFork, target: "sched_process_fork"},
		},
		rename: variantHook{kind: engine.KindComm, program: programsProgQuarkVariantRename, target: "task_rename"},
	},
	source.AttachFEntry: {
		prefix: "fentry", kind: ebpf.Tracing, at: ebpf.AttachTraceFEntry,
		hooks: []variantHook{
			{kind: engine.KindExit, program: programsProgQuarkVariantExit, target: "taskstats_exit", instead: "exit_files"},
			// CONFIG_PROC_EVENTS. All else that an exec calls others call, too.
			{kind: engine.KindExec, program: programsProgQuarkVariantExec, target: "proc_exec_connector"},
			{kind: engine.KindExec, program: programsProgQuarkVariantExecLeader, target: "proc_exec_connector", forLeadersOnly: true},
			{kind: engine.KindFork, program: programsProgQuarkVariantFork, target: "wake_up_new_task"},
		},
		rename: variantHook{kind: engine.KindComm, program: programsProgQuarkVariantRename, target: "__set_task_comm"},
	},
	source.AttachTracepoint: {
		prefix: "tracepoint", kind: ebpf.TracePoint,
		hooks: []variantHook{
			{kind: engine.KindExit, program: programsProgQuarkVariantExit, group: "sched", target: "sched_process_exit"},
			{kind: engine.KindExec, program: programsProgQuarkVariantExec, group: "sched", target: execTracepoint},
			{kind: engine.KindExec, program: programsProgQuarkVariantExecLeader, group: "sched", target: execTracepoint, forLeadersOnly: true},
			{kind: engine.KindFork, program: programsProgQuarkVariantForkRecord, group: "task", target: "task_newtask", fields: newtaskFields},
		},
		rename: variantHook{kind: engine.KindComm, program: programsProgQuarkVariantRenameRecord, group: "task", target: "task_rename", fields: renameFields},
	},
}

// ofPlainFork are the fields that the record of a plain tracepoint tells of a fork.
const ofPlainFork = engine.Fields(1<<engine.FieldComm | 1<<engine.FieldPPID | 1<<engine.FieldParentTID)

func (h *variantHook) name(v *variant) string {
	if h.group != "" {
		return v.prefix + "/" + h.group + "/" + h.target
	}
	return v.prefix + "/" + h.target
}

// openVariant does what open does, by another way to attach than raw tracepoints.
func (s *Source) openVariant(l *loader, shared *source.Options, cpus int) error {
	v := variants[s.attach]
	if v.kind == ebpf.Tracing {
		if _, err := os.Stat(btfhub.KernelBTF); err != nil {
			return fmt.Errorf("attach by %s: the kernel has no types of its own (CONFIG_DEBUG_INFO_BTF): %w", v.prefix, errors.ErrUnsupported)
		}
	} else if len(shared.Users) > 0 {
		return fmt.Errorf("attach by %s: the record of a fork does not tell whether its process is to be left out (Options.Users): %w", v.prefix, errors.ErrUnsupported)
	}
	twinned := v.kind == ebpf.Tracing && kernelversion.AtLeast(preemptibleSince)
	if err := l.retype(v, twinned); err != nil {
		return err
	}
	var hooks []variantHook
	programs := make([]*ebpf.Program, 0, len(v.hooks))
	for _, h := range v.hooks {
		wanted := shared.Reports(h.kind.Events())
		switch {
		case h.kind == engine.KindExit:
			wanted = shared.ReportsEnds()
		case h.forLeadersOnly:
			wanted = !wanted && shared.ReportsEnds()
		}
		if !wanted {
			continue
		}
		p, err := s.loadVariant(l, v, &h)
		if err != nil {
			return err
		}
		hooks, programs = append(hooks, h), append(programs, p)
	}
	if len(hooks) == 0 { // the maps come with the first programs
		if _, err := s.load(l); err != nil {
			return err
		}
	}
	if err := s.share(l); err != nil {
		return err
	}
	attach := func(kinds engine.Events) error {
		for i := range hooks {
			if !kinds.Has(hooks[i].kind.Events()) {
				continue
			}
			if err := s.attachVariant(l, v, &hooks[i], programs[i], twinned); err != nil {
				return err
			}
		}
		return nil
	}
	if err := attach(engine.EventExec | engine.EventExit); err != nil {
		return err
	}
	if shared.Reports(engine.EventSetProcTitle) {
		s.renameVariant(l, v, twinned)
	}
	s.openOthers(l, shared)
	// What becomes of a process that is told is told, too.
	if err := attach(engine.EventFork); err != nil {
		return err
	}
	if v.kind == ebpf.TracePoint && !kernelversion.AtLeast(skipsCounted) {
		s.capabilities.Notes = append(s.capabilities.Notes,
			"other events may be missing uncounted, too: their programs are those of perf events")
	}
	return nil
}

// retype makes the programs be of the variant's type.
func (l *loader) retype(v *variant, twinned bool) error {
	if err := l.set(programsVarTwinned, flag(twinned)); err != nil {
		return err
	}
	for _, h := range append(v.hooks[:len(v.hooks):len(v.hooks)], v.rename) {
		p := l.spec.Programs[h.program]
		p.Type, p.AttachType = v.kind, v.at
	}
	if v.kind == ebpf.TracePoint {
		return l.set(programsVarPassOn, flag(true))
	}
	if v.at != ebpf.AttachTraceFEntry {
		return nil
	}
	return errors.Join(l.set(programsVarOfFunction, flag(true)), l.set(programsVarWorkerFlags, workerFlags()))
}

// workerFlags returns the flag of tasks that no fork made, but the kernel for another one, which
// are born by wake_up_new_task: PF_USER_WORKER, before it PF_IO_WORKER, before it none.
func workerFlags() uint32 {
	switch {
	case kernelversion.AtLeast("6.4"):
		return 0x4000
	case kernelversion.AtLeast("5.12"):
		return 0x10
	}
	return 0
}

// loadVariant loads the program of a hook, and says where it can be attached.
func (s *Source) loadVariant(l *loader, v *variant, h *variantHook) (*ebpf.Program, error) {
	if h.fields != nil {
		event, err := plainEvent(h)
		if err != nil {
			return nil, err
		}
		if err := h.fields(l, event); err != nil {
			return nil, err
		}
	}
	// Before 5.16 the core dump of another process with the same memory can set the status
	// after taskstats_exit.
	if h.instead != "" && !kernelversion.AtLeast("5.16") {
		h.target, h.instead = h.instead, ""
	}
	l.spec.Programs[h.program].AttachTo = h.target
	programs, err := s.load(l, h.program)
	if errors.Is(err, btf.ErrNotFound) && h.instead != "" {
		h.target, h.instead = h.instead, ""
		l.spec.Programs[h.program].AttachTo = h.target
		programs, err = s.load(l, h.program)
	}
	switch {
	case errors.Is(err, btf.ErrNotFound):
		return nil, fmt.Errorf("attach by %s: the kernel has no such function: %w", h.name(v), errors.ErrUnsupported)
	case err != nil:
		return nil, v.explain(h, err)
	}
	return programs[h.program], nil
}

// explain adds to the error of a load what a person can do about it.
func (v *variant) explain(h *variantHook, err error) error {
	if v.at == ebpf.AttachTraceFEntry && errors.Is(err, unix.EPERM) && unix.Geteuid() == 0 {
		return fmt.Errorf("attach by %s: the kernel refused though this is root: where a policy of the host forbids programs on functions, "+
			"ebpf, ebpf:btf or ebpf:tracepoint may work, which need none; else CAP_BPF or CAP_PERFMON is missing: %w", h.name(v), unix.EPERM)
	}
	return fmt.Errorf("attach by %s: %w", h.name(v), err)
}

// plainEvent returns the plain tracepoint of a hook.
func plainEvent(h *variantHook) (*tracefs.Event, error) {
	fs, err := tracefs.Open()
	if err != nil {
		return nil, err
	}
	defer fs.Close()
	event, err := fs.Event(h.group, h.target)
	if err != nil {
		return nil, fmt.Errorf("find tracepoint %s/%s: %w", h.group, h.target, err)
	}
	return event, nil
}

// attachVariant attaches the program of a hook, and with twinned a second one after it.
func (s *Source) attachVariant(l *loader, v *variant, h *variantHook, p *ebpf.Program, twinned bool) error {
	if v.kind == ebpf.TracePoint {
		event, err := plainEvent(h)
		if err == nil {
			err = s.events.attach(event, p)
		}
		if err != nil {
			return fmt.Errorf("attach by %s: %w", h.name(v), err)
		}
	} else {
		lnk, err := link.AttachTracing(link.TracingOptions{Program: p, AttachType: v.at})
		if errors.Is(err, ebpf.ErrNotSupported) && v.at == ebpf.AttachTraceFEntry {
			err = fmt.Errorf("the kernel needs CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS: %w", errors.ErrUnsupported)
		}
		if err != nil {
			return fmt.Errorf("attach by %s: %w", h.name(v), err)
		}
		s.links = append(s.links, lnk)
	}
	attached(h.target)
	if h.forLeadersOnly {
		return nil
	}
	s.capabilities.Kinds[h.kind] = kernelVia(h.name(v))
	if !twinned {
		s.alone = append(s.alone, p)
		return nil
	}
	s.first = append(s.first, p)
	second := renameHook
	for _, r := range required {
		if r.kind == h.kind {
			second = r
		}
	}
	programs, err := s.load(l, second.handler, second.second())
	if err == nil {
		err = s.placeHandler(second, programs)
	}
	if err != nil {
		return err
	}
	return s.attachSecond(l, second, programs)
}

// renameVariant attaches the program of new names. Where there is none the source lacks these.
func (s *Source) renameVariant(l *loader, v *variant, twinned bool) {
	h := v.rename
	err := seesExec(l)
	if err == nil {
		var p *ebpf.Program
		if p, err = s.loadVariant(l, v, &h); err == nil {
			err = s.attachVariant(l, v, &h, p, twinned)
		}
	}
	switch kind := &s.capabilities.Kinds[h.kind]; {
	case err != nil:
		*kind = without(err)
	case v.kind == ebpf.TracePoint:
		kind.Partial = engine.EventSetProcTitle
		kind.Via += "; not a name that a task gives to another one than itself or its leader"
	}
}

// newtaskFields tells the program where a record of task_newtask has what.
func newtaskFields(l *loader, event *tracefs.Event) error {
	flags, ok := event.Field("clone_flags")
	if !ok || flags.Size != 8 {
		return fmt.Errorf("the format of tracepoint %s is none that is known: no clone_flags of 8 bytes", event.Name)
	}
	return errors.Join(l.set(programsVarRecordFlags, uint32(flags.Offset)), recordFields(l, event, "comm"))
}

// renameFields does so for task_rename, which from Linux 6.16 to 6.18 has no pid.
func renameFields(l *loader, event *tracefs.Event) error { return recordFields(l, event, "newcomm") }

// recordFields tells the program where a record has the thread id and a name.
func recordFields(l *loader, event *tracefs.Event, name string) error {
	pid, ok := event.Field("pid")
	if !ok || pid.Size != 4 {
		return fmt.Errorf("the record of tracepoint %s does not tell whom it is about: it has no pid", event.Name)
	}
	comm, ok := event.Field(name)
	if !ok || comm.Size != 4 && comm.Size != 16 {
		return fmt.Errorf("the format of tracepoint %s is none that is known: no %s", event.Name, name)
	}
	return errors.Join(l.set(programsVarRecordPid, uint32(pid.Offset)), l.set(programsVarRecordComm, uint32(comm.Offset)),
		l.set(programsVarCommElsewhere, flag(comm.Size == 4)))
}
