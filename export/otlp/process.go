package otlp

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/quark-linux/quark"
)

// ofEnds are the fields that only the end of a process has.
const ofEnds = quark.FieldsUsage | 1<<quark.FieldExit

// process adds what is known of the event's process, and which of its fields are carried, cut and
// unknown.
func (r *recorder) process(ev *quark.Event) {
	p, known := ev.Process, ev.Process.Known.Has
	r.number64(semconv.ProcessPIDKey, uint64(p.PID))
	if known(quark.FieldPPID) {
		r.number64(semconv.ProcessParentPIDKey, uint64(p.PPID))
	}
	if p.Birth.Known.Has(quark.FieldPPID) {
		r.number64("quark.birth.parent_pid", uint64(p.Birth.Parent.PID))
	}
	if known(quark.FieldPIDNS) {
		r.number64(semconv.ProcessVpidKey, uint64(p.NSPID))
	}
	if known(quark.FieldStart) {
		r.attrs = append(r.attrs, semconv.ProcessCreationTime(date(r.q.Clock().BootAt(p.Start))))
		if id := p.AppendEntityID(nil, &r.q.Clock().Host); len(id) > 0 {
			r.attrs = append(r.attrs, text("quark.entity_id", string(id)))
		}
	}
	if known(quark.FieldSID) {
		r.number64(semconv.ProcessSessionLeaderPIDKey, uint64(p.SID))
	}
	if known(quark.FieldPGID) {
		r.number64(semconv.ProcessGroupLeaderPIDKey, uint64(p.PGID))
	}
	r.image(p)
	r.ids(p)
	if known(quark.FieldCgroup) {
		r.text(string(semconv.ProcessLinuxCgroupKey), p.Cgroup)
		if c, ok := p.Container(); ok && c.ID != "" {
			r.attrs = append(r.attrs, semconv.ContainerID(valid(c.ID)))
			if c.Runtime != "" {
				r.attrs = append(r.attrs, semconv.ContainerRuntimeName(c.Runtime))
			}
			// The pods of podman are not of Kubernetes.
			if c.Pod != "" && c.Runtime != "podman" {
				r.attrs = append(r.attrs, semconv.K8SPodUID(valid(c.Pod)))
			}
		}
	}
	if known(quark.FieldTTY) && p.TTY != (quark.TTY{}) {
		r.attrs = append(r.attrs, text("quark.tty", strconv.Itoa(int(p.TTY.Major))+":"+strconv.Itoa(int(p.TTY.Minor))))
	}
	if known(quark.FieldEntry) {
		r.attrs = append(r.attrs, text("quark.entry.type", strings.ToLower(p.EntryType.String())))
		r.number64("quark.entry.pid", uint64(p.EntryLeader.PID))
	}
	r.end(p)
	// The environment has to be asked for.
	missing := quark.AllFields &^ p.Known &^ (1 << quark.FieldEnviron)
	if !ev.Events.Has(quark.EventExit) {
		missing &^= ofEnds
	}
	if p.IsKernelThread() {
		missing &^= quark.SetOf(quark.FieldFilename, quark.FieldCmdline, quark.FieldExecutable, quark.FieldExecPath)
	}
	r.set("quark.unknown", missing)
	r.set("quark.carried", p.Carried)
	r.set("quark.truncated", p.Truncated)
}

// image adds what the process executes.
func (r *recorder) image(p *quark.Process) {
	if p.Known.Has(quark.FieldComm) {
		r.text("quark.comm", p.Comm)
	}
	if p.Known.Has(quark.FieldFilename) {
		r.text(string(semconv.ProcessExecutablePathKey), p.Filename)
		r.attrs = append(r.attrs, semconv.ProcessExecutableName(valid(base(p.Filename))))
	}
	if p.Known.Has(quark.FieldCwd) {
		r.text(string(semconv.ProcessWorkingDirectoryKey), p.Cwd)
	}
	if !p.Known.Has(quark.FieldCmdline) {
		return
	}
	var args []string
	n := 0
	for a := range p.Args() {
		if n++; n <= maxArgs {
			args = append(args, valid(string(a)))
		}
	}
	r.lists += len(p.Cmdline) + 16*len(args)
	if n > 0 {
		r.attrs = append(r.attrs, attribute.StringSlice(string(semconv.ProcessCommandArgsKey), args))
		if whole := valid(string(p.Cmdline)); whole != string(p.Cmdline) {
			r.bytes("process.command_args", bytes.Clone(p.Cmdline))
		}
	}
	if n > maxArgs {
		r.attrs = append(r.attrs, attribute.Bool("quark.command_args_cut", true))
	}
	if !p.Truncated.Has(quark.FieldCmdline) {
		r.attrs = append(r.attrs, semconv.ProcessArgsCount(n))
	}
}

// ids adds users and groups.
func (r *recorder) ids(p *quark.Process) {
	c := &p.Cred
	if p.Known.Has(quark.FieldUIDs) {
		r.user(p, semconv.ProcessUserIDKey, semconv.ProcessUserNameKey, c.EUID)
		r.user(p, semconv.ProcessRealUserIDKey, semconv.ProcessRealUserNameKey, c.UID)
	}
	if p.Known.Has(quark.FieldSUID) {
		r.user(p, semconv.ProcessSavedUserIDKey, semconv.ProcessSavedUserNameKey, c.SUID)
	}
	if p.Known.Has(quark.FieldGIDs) {
		r.number64("quark.group.id", uint64(c.EGID))
		r.number64("quark.real_group.id", uint64(c.GID))
	}
	if p.Known.Has(quark.FieldSGID) {
		r.number64("quark.saved_group.id", uint64(c.SGID))
	}
	if p.Known.Has(quark.FieldLogin) && p.Login.UID != quark.LoginUnset {
		r.number64("quark.login.user.id", uint64(p.Login.UID))
		r.number64("quark.login.session", uint64(p.Login.Session))
	}
	if p.Known.Has(quark.FieldCaps) {
		r.attrs = append(r.attrs, text("quark.capabilities.effective", strconv.FormatUint(p.Caps.Effective, 16)),
			text("quark.capabilities.permitted", strconv.FormatUint(p.Caps.Permitted, 16)))
	}
}

func (r *recorder) user(p *quark.Process, id, name attribute.Key, uid uint32) {
	r.number64(id, uint64(uid))
	if r.names == nil {
		return
	}
	if n := r.names.User(p, uid); n != "" {
		r.attrs = append(r.attrs, name.String(valid(n)))
	}
}

// end adds how the process ended, and what it has used.
func (r *recorder) end(p *quark.Process) {
	if p.Inferred {
		r.attrs = append(r.attrs, attribute.Bool("quark.inferred", true))
	}
	if p.Known.Has(quark.FieldExit) {
		if p.Exited {
			r.attrs = append(r.attrs, semconv.ProcessExitTime(date(r.q.Clock().At(p.Exit.Time))))
		}
		if s := p.Exit.Signal(); s != 0 {
			r.attrs = append(r.attrs, text("quark.exit.signal", quark.SignalName(s)), attribute.Bool("quark.exit.core_dumped", p.Exit.CoreDumped()))
		} else {
			r.attrs = append(r.attrs, semconv.ProcessExitCode(p.Exit.Code()))
		}
	}
	u := p.Usage
	if u == nil {
		return
	}
	if p.Known.Has(quark.FieldCPUTime) {
		r.number64("quark.usage.user_ns", u.UserTime)
		r.number64("quark.usage.system_ns", u.SystemTime)
	}
	if p.Known.Has(quark.FieldPeakRSS) {
		r.number64("quark.usage.peak_rss_bytes", u.PeakRSS)
	}
	if p.Known.Has(quark.FieldIO) {
		r.number64("quark.usage.read_bytes", u.ReadBytes)
		r.number64("quark.usage.write_bytes", u.WriteBytes)
	}
}

func date(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000000Z") }
