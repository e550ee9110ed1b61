package otlp

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/quark-linux/quark"
)

// ofEnds are the fields that only the end of a process has.
const ofEnds = quark.FieldsUsage | 1<<quark.FieldExit

// process adds what is known of the event's process, and which of its fields are cached, cut and
// unknown.
func (r *recorder) process(ev *quark.Event) {
	p, known := ev.Process, ev.Process.Known.Has
	r.number(semconv.ProcessPIDKey, int64(p.PID))
	if known(quark.FieldPPID) {
		r.number(semconv.ProcessParentPIDKey, int64(p.PPID))
	}
	if p.Birth.Known.Has(quark.FieldPPID) {
		r.number("quark.birth.parent_pid", int64(p.Birth.Parent.PID))
	}
	if known(quark.FieldPIDNS) {
		r.number(semconv.ProcessVpidKey, int64(p.NSPID))
	}
	if known(quark.FieldStart) {
		r.date(semconv.ProcessCreationTimeKey, r.q.Clock().Started(p))
		if r.made = p.AppendEntityID(r.made[:0], &r.q.Clock().Host); len(r.made) > 0 {
			r.text("quark.entity_id", string(r.made))
		}
	}
	if known(quark.FieldSID) {
		r.number(semconv.ProcessSessionLeaderPIDKey, int64(p.SID))
	}
	if known(quark.FieldPGID) {
		r.number(semconv.ProcessGroupLeaderPIDKey, int64(p.PGID))
	}
	r.image(p)
	r.ids(p)
	if known(quark.FieldCgroup) {
		r.rawText(semconv.ProcessLinuxCgroupKey, p.Cgroup)
		if c, ok := p.Container(); ok && c.ID != "" {
			r.text(semconv.ContainerIDKey, c.ID)
			if c.Runtime != "" {
				r.text(semconv.ContainerRuntimeNameKey, c.Runtime)
			}
			// The pods of podman are not of Kubernetes.
			if c.Pod != "" && c.Runtime != "podman" {
				r.text(semconv.K8SPodUIDKey, c.Pod)
			}
		}
	}
	if known(quark.FieldTTY) && p.TTY != (quark.TTY{}) {
		r.text("quark.tty", strconv.Itoa(int(p.TTY.Major))+":"+strconv.Itoa(int(p.TTY.Minor)))
	}
	if known(quark.FieldEntryLeader) {
		r.text("quark.entry.type", strings.ToLower(p.EntryType.String()))
		r.number("quark.entry.pid", int64(p.EntryLeader.PID))
	}
	r.end(p)
	// The environment has to be asked for.
	missing := quark.AllFields &^ p.Known &^ (1 << quark.FieldEnviron)
	if !ev.Events.Has(quark.EventExit) {
		missing &^= ofEnds
	}
	if p.IsKernelThread() {
		missing &^= quark.SetOf(quark.FieldExe, quark.FieldArgs, quark.FieldExeFile, quark.FieldExecPath)
	}
	r.set("quark.unknown", missing)
	r.set("quark.cached", p.Cached)
	r.set("quark.truncated", p.Truncated)
}

// image adds what the process executes.
func (r *recorder) image(p *quark.Process) {
	if p.Known.Has(quark.FieldComm) {
		r.rawText("quark.comm", p.Comm)
	}
	if p.Known.Has(quark.FieldExe) {
		r.rawText(semconv.ProcessExecutablePathKey, p.Exe)
		r.text(semconv.ProcessExecutableNameKey, base(p.Exe))
	}
	if p.Known.Has(quark.FieldCwd) {
		r.rawText(semconv.ProcessWorkingDirectoryKey, p.Cwd)
	}
	if !p.Known.Has(quark.FieldArgs) {
		return
	}
	n := 0
	if len(p.Args) > 0 {
		var args []string
		for a := range p.Arguments() {
			if n++; n <= maxArgs {
				args = append(args, valid(string(a)))
			}
		}
		r.list(semconv.ProcessCommandArgsKey, args)
		if !utf8.Valid(p.Args) {
			r.bytes("quark.bytes.process.command_args", p.Args)
		}
	}
	if n > maxArgs {
		r.flag("quark.command_args_cut", true)
	}
	if !p.Truncated.Has(quark.FieldArgs) {
		r.number(semconv.ProcessArgsCountKey, int64(n))
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
		r.number("quark.group.id", int64(c.EGID))
		r.number("quark.real_group.id", int64(c.GID))
	}
	if p.Known.Has(quark.FieldSGID) {
		r.number("quark.saved_group.id", int64(c.SGID))
	}
	if p.Known.Has(quark.FieldLogin) && p.Login.UID != quark.LoginUnset {
		r.number("quark.login.user.id", int64(p.Login.UID))
		r.number("quark.login.session", int64(p.Login.Session))
	}
	if p.Known.Has(quark.FieldCaps) {
		r.hex("quark.capabilities.effective", p.Caps.Effective)
		r.hex("quark.capabilities.permitted", p.Caps.Permitted)
	}
}

func (r *recorder) user(p *quark.Process, id, name attribute.Key, uid uint32) {
	r.number(id, int64(uid))
	if r.names == nil {
		return
	}
	if n := r.names.User(p, uid); n != "" {
		r.text(name, n)
	}
}

// end adds how the process ended, and what it has used.
func (r *recorder) end(p *quark.Process) {
	if p.Inferred {
		r.flag("quark.inferred", true)
	}
	if p.Known.Has(quark.FieldExit) {
		if p.Exited {
			r.date(semconv.ProcessExitTimeKey, r.q.Clock().At(p.Exit.Time))
		}
		if s := p.Exit.Signal(); s != 0 {
			r.text("quark.exit.signal", quark.SignalName(s))
			r.flag("quark.exit.core_dumped", p.Exit.CoreDumped())
		} else {
			r.number(semconv.ProcessExitCodeKey, int64(p.Exit.Code()))
		}
	}
	u := p.Usage
	if u == nil {
		return
	}
	if p.Known.Has(quark.FieldCPUTime) {
		r.number("quark.usage.user_ns", int64(u.UserTime))
		r.number("quark.usage.system_ns", int64(u.SystemTime))
	}
	if p.Known.Has(quark.FieldPeakRSS) {
		r.number("quark.usage.peak_rss_bytes", int64(u.PeakRSS))
	}
	if p.Known.Has(quark.FieldIO) {
		r.number("quark.usage.read_bytes", int64(u.ReadBytes))
		r.number("quark.usage.write_bytes", int64(u.WriteBytes))
	}
}

func (r *recorder) date(key attribute.Key, t time.Time) {
	r.made = t.UTC().AppendFormat(r.made[:0], "2006-01-02T15:04:05.000000000Z")
	r.text(key, string(r.made))
}

func (r *recorder) hex(key attribute.Key, v uint64) {
	r.made = strconv.AppendUint(r.made[:0], v, 16)
	r.text(key, string(r.made))
}
