package ecs

import (
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine/schema"
	"github.com/quark-linux/quark/exehash"
)

// Version is the version of the schema.
const Version = "8.17.0"

// Encoder makes documents of the events of a queue. It may be used from one goroutine at a time.
type Encoder struct {
	// Names, if not nil, provides the names of the host's users and groups.
	Names *quark.Names
	// Hashes, if not nil, adds the SHA-256 of the executable to documents of an EXEC.
	Hashes *exehash.Cache

	q    *quark.Queue
	host []byte
	made []byte // buffer for a string

	// For the current document: the names of cached and cut values that are not fields, and
	// strings that are not UTF-8.
	cached, truncated []string
	broken            []string // pairs of name and string
}

// NewEncoder returns an encoder for the events of q. It looks up the relatives of processes in q's
// table.
func NewEncoder(q *quark.Queue) *Encoder {
	h := q.Clock().Host
	o := &object{b: []byte("{")}
	o.textIf("hostname", h.Name)
	o.textIf("name", h.Name)
	o.textIf("id", h.MachineID)
	o.textIf("architecture", architecture(h.Arch))
	if h.BootID != "" {
		o.open("boot")
		o.text("id", h.BootID)
		o.end()
	}
	o.open("os")
	o.text("type", "linux")
	o.textIf("kernel", h.Kernel)
	o.end()
	o.end()
	return &Encoder{q: q, host: o.b}
}

// architecture returns the schema's name, which is uname(2)'s, for a GOARCH.
func architecture(arch string) string {
	switch arch {
	case "amd64":
		return "x86_64"
	case "arm64":
		return "aarch64"
	}
	return arch
}

// Append appends the document of an event as one JSON object without a line end. An event without a
// kind is a process that existed at the start. Call it before the next Get, because it reads
// relatives from the current state of the queue. If a relative's state is newer than the event,
// only its constant values are included.
func (e *Encoder) Append(b []byte, ev *quark.Event) []byte {
	o := &object{b: append(b, '{')}
	e.cached, e.truncated, e.broken = e.cached[:0], e.truncated[:0], e.broken[:0]
	o.date("@timestamp", ev.Wall)
	o.open("ecs")
	o.text("version", Version)
	o.end()
	e.event(o, ev)
	o.key("host")
	o.b = append(o.b, e.host...)
	p := ev.Process
	if ev.Events.Has(quark.EventGap) {
		o.text("message", "events were lost: "+ev.Gap.Cause.String())
		p = nil
	}
	if ev.Events.Has(quark.EventExecFailed) {
		o.failedExec(&ev.Failed)
	}
	if len(ev.Rules) > 0 {
		o.open("rule")
		o.list("name", ev.Rules)
		o.end()
	}
	if p != nil {
		e.process(o, ev)
		o.list("tags", p.Tags())
		if p.Known.Has(quark.FieldUIDs) {
			e.user(o, "user", p, p.Cred.EUID)
			o.open("related")
			o.list("user", e.users(p))
			o.end()
		}
		o.container(p)
	}
	e.ownValues(o, ev, p)
	return append(o.b, '}')
}

// actions lists the words of event.action, in the order in which they are joined.
var actions = []struct {
	events quark.Events
	word   string
}{
	{quark.EventFork, "forked"},
	{quark.EventExec, "executed"},
	{quark.EventExecFailed, "exec-failed"},
	{quark.EventIDChange, "ids-changed"},
	{quark.EventNSChange, "ns-changed"},
	{quark.EventSetProcTitle, "title-changed"},
	{quark.EventCgroupChange, "cgroup-changed"},
	{quark.EventReparent, "reparented"},
	{quark.EventPtrace, "traced"},
	{quark.EventCoreDump, "core-dumped"},
	{quark.EventExit, "exited"},
	{quark.EventGone, "gone"},
}

func (e *Encoder) event(o *object, ev *quark.Event) {
	kind, category := "event", []string{"process"}
	var outcome string
	var types []string
	words := []string{"process"}
	for _, a := range actions {
		if ev.Events.Has(a.events) {
			words = append(words, a.word)
		}
	}
	is := func(events quark.Events, kind string) {
		if ev.Events&events != 0 {
			types = append(types, kind)
		}
	}
	is(quark.EventFork|quark.EventExec, "start")
	is(quark.EventIDChange|quark.EventNSChange|quark.EventCgroupChange|quark.EventSetProcTitle|quark.EventReparent, "change")
	is(quark.EventExit|quark.EventGone, "end")
	switch {
	case ev.Events.Has(quark.EventGap):
		kind, category, words, types = "pipeline_error", nil, []string{"events-lost"}, []string{"error"}
	case ev.Events == 0:
		words, types = []string{"process-existing"}, []string{"info"}
	case len(types) == 0:
		// This includes a failed exec: no program started, and the schema has no error
		// category for processes.
		types = []string{"info"}
	}
	switch {
	case ev.Events.Has(quark.EventExecFailed):
		outcome = "failure"
	case ev.Events.Has(quark.EventExit) && ev.Process != nil && ev.Process.Known.Has(quark.FieldExit):
		outcome = "success"
		if ev.Process.Exit.WaitStatus != 0 {
			outcome = "failure"
		}
	}
	o.open("event")
	o.text("kind", kind)
	o.list("category", category)
	o.list("type", types)
	o.text("action", strings.Join(words, "-"))
	o.textIf("outcome", outcome)
	o.text("module", "quark")
	o.text("dataset", "quark.process")
	o.date("created", ev.Wall)
	if n := len(ev.Parts); n > 1 {
		o.date("start", e.q.Clock().At(ev.Parts[0].Time))
		o.date("end", e.q.Clock().At(ev.Parts[n-1].Time))
	}
	o.end()
}

// failedExec appends the error of a failed exec.
func (o *object) failedExec(f *quark.FailedExec) {
	o.open("error")
	message := "exec failed"
	if f.Errno != 0 {
		o.text("code", strconv.Itoa(int(f.Errno)))
		message += ": " + syscall.Errno(f.Errno).Error()
	}
	o.text("message", message)
	o.end()
}

// container appends the container of p and its pod.
func (o *object) container(p *quark.Process) {
	in, _ := p.Container()
	if in.ID == "" {
		return
	}
	o.open("container")
	o.text("id", in.ID)
	o.textIf("runtime", in.Runtime)
	o.end()
	if in.Pod == "" {
		return
	}
	o.open("orchestrator")
	if in.Runtime != "podman" {
		o.text("type", "kubernetes")
	}
	o.open("resource")
	o.text("type", "pod")
	o.text("id", in.Pod)
	o.end()
	o.end()
}

// ownValues appends the values for which the schema has no field. p may be nil.
func (e *Encoder) ownValues(o *object, ev *quark.Event, p *quark.Process) {
	o.open("quark")
	o.text("backend", e.q.Backend())
	o.number("time_monotonic", ev.Time)
	if ev.Events.Has(quark.EventPtrace) {
		o.number("tracer_pid", uint64(ev.Tracer.PID))
	}
	if ev.Events.Has(quark.EventNSChange) {
		o.list("ns_change", ev.NSChange.Changed.Names())
		for name, n := range ev.NSChange.Numbers() {
			o.number(name, uint64(n))
		}
	}
	if ev.Events.Has(quark.EventReparent) {
		o.number("old_ppid", uint64(ev.OldPPID))
	}
	if by := ev.CgroupChangeBy; ev.Events.Has(quark.EventCgroupChange) {
		o.number("cgroup_change_by_pid", uint64(by.PID))
		if by.Start != 0 {
			o.number("cgroup_change_by_start", by.Start)
		}
	}
	if f := &ev.Failed; ev.Events.Has(quark.EventExecFailed) && f.PathKnown {
		e.text(o, "exec_failed_path", f.Path)
		if f.PathCached {
			e.cached = append(e.cached, "exec_failed_path")
		}
		if f.PathTruncated {
			e.truncated = append(e.truncated, "exec_failed_path")
		}
	}
	if ev.Events.Has(quark.EventGap) {
		e.gap(o, &ev.Gap)
	}
	if p != nil {
		e.rows(o, "quark.", p, func(*quark.Row) bool { return true })
		if parent, known := parentOf(p); p.Known.Has(quark.FieldPPID) && known && parent != p.PPID {
			o.number("ppid", uint64(p.PPID)) // current parent
		}
		o.list("cached", append(fieldNames(p.Cached), e.cached...))
		o.list("truncated", append(fieldNames(p.Truncated), e.truncated...))
	}
	if len(e.broken) > 0 {
		o.open("bytes_b64")
		for i := 0; i < len(e.broken); i += 2 {
			o.base64(e.broken[i], e.broken[i+1])
		}
		o.end()
	}
	o.end()
}

// gap appends the lost events. A count of 0 is unknown.
func (e *Encoder) gap(o *object, g *quark.Gap) {
	o.open("gap")
	o.text("cause", g.Cause.String())
	o.number("count", g.Count)
	if g.CPU != quark.AllCPUs {
		o.number("cpu", uint64(g.CPU))
	}
	o.date("from", e.q.Clock().At(g.From))
	o.date("to", e.q.Clock().At(g.To))
	o.end()
}

// rows appends the values of p whose schema field begins with prefix and that chosen accepts.
func (e *Encoder) rows(o *object, prefix string, p *quark.Process, chosen func(*quark.Row) bool) {
	rows := quark.Rows()
	for i := range rows {
		r := &rows[i]
		name, ok := strings.CutPrefix(r.ECS, prefix)
		if !ok || !chosen(r) || !r.Has(p, e.q.Clock()) {
			continue
		}
		switch r.Shape {
		case schema.Uint:
			o.number(name, r.Number(p))
		case schema.True:
			o.flag(name, true)
		case schema.String, schema.Path:
			e.text(o, name, r.Text(p))
		default:
			e.made = r.AppendWord(e.made[:0], p, e.q.Clock())
			o.text(name, string(e.made))
		}
	}
}

// text appends a string, and adds it to e.broken if it is not UTF-8.
func (e *Encoder) text(o *object, name, v string) {
	o.text(name, v)
	if !utf8.ValidString(v) {
		e.broken = append(e.broken, name, v)
	}
}

// process appends the event's process.
func (e *Encoder) process(o *object, ev *quark.Event) {
	p := ev.Process
	o.open("process")
	e.describe(o, p, true)
	kept := len(e.broken)
	if p.Known.Has(quark.FieldCaps) || ev.Thread {
		o.open("thread")
		if ev.Thread {
			o.number("id", uint64(ev.TID))
		}
		if p.Known.Has(quark.FieldCaps) {
			o.open("capabilities")
			o.list("permitted", names(p.Caps.Permitted))
			o.list("effective", names(p.Caps.Effective))
			o.end()
		}
		o.end()
	}
	e.rows(o, "process.", p, func(r *quark.Row) bool { return r.Fields.Has(quark.FieldExit) })
	if p.Known.Has(quark.FieldExit) && p.Exited {
		o.date("end", e.q.Clock().At(p.Exit.Time))
	}
	if e.Hashes != nil && ev.Events.Has(quark.EventExec) {
		if sum, err := e.Hashes.Sum(p); err == nil { // otherwise the sum is unknown
			o.open("hash")
			o.text("sha256", hex.EncodeToString(sum.SHA256[:]))
			o.end()
			if sum.Cached {
				e.cached = append(e.cached, "hash")
			}
		}
	}
	e.relatives(o, ev)
	e.broken = e.broken[:kept] // omit those of relatives
	o.end()
}

// parentOf returns the parent that forked p or, if unknown, the current parent.
func parentOf(p *quark.Process) (pid uint32, known bool) {
	if p.Birth.Known.Has(quark.FieldPPID) {
		return p.Birth.Parent.PID, true
	}
	return p.PPID, p.Known.Has(quark.FieldPPID)
}

// relatives appends the parent and the leaders.
func (e *Encoder) relatives(o *object, ev *quark.Event) {
	p := ev.Process
	until := ev.Time
	if n := len(ev.Parts); n > 0 {
		until = ev.Parts[n-1].Time
	}
	open := func(name string, pid uint32, r *quark.Process) {
		o.open(name)
		if r == nil {
			o.number("pid", uint64(pid))
			return
		}
		e.describe(o, r, r.PID == p.PID || r.AsOf() <= until)
	}
	if pid, known := parentOf(p); known {
		var r *quark.Process
		if p.Birth.Known.Has(quark.FieldStart) {
			r = e.q.LookupIdentity(p.Birth.Parent)
		}
		open("parent", pid, r)
		o.end()
	}
	for _, l := range []struct {
		name  string
		field quark.Field
		pid   uint32
		found *quark.Process
	}{
		{"session_leader", quark.FieldSID, p.SID, e.q.SessionLeader(p)},
		{"group_leader", quark.FieldPGID, p.PGID, e.q.GroupLeader(p)},
		{"entry_leader", quark.FieldEntryLeader, p.EntryLeader.PID, e.q.LookupIdentity(p.EntryLeader)},
	} {
		if !p.Known.Has(l.field) || l.pid == 0 {
			continue
		}
		open(l.name, l.pid, l.found)
		o.flag("same_as_process", l.pid == p.PID)
		if l.field == quark.FieldEntryLeader {
			o.open("entry_meta")
			o.text("type", strings.ToLower(p.EntryType.String()))
			o.end()
		}
		o.end()
	}
}

// describe appends the known fields of a process, or only the constant ones.
func (e *Encoder) describe(o *object, p *quark.Process, all bool) {
	known := p.Known.Has
	o.number("pid", uint64(p.PID))
	if known(quark.FieldPIDNS) && p.NSPID != p.PID {
		o.number("vpid", uint64(p.NSPID))
	}
	e.rows(o, "process.", p, func(r *quark.Row) bool {
		return r.Fields == quark.SetOf(quark.FieldStart) || all && !r.Fields.Has(quark.FieldExit)
	})
	if !all {
		return
	}
	if known(quark.FieldArgs) {
		args := splitNUL(p.Image.Args)
		o.list("args", args)
		if !p.Truncated.Has(quark.FieldArgs) {
			o.number("args_count", uint64(len(args)))
		}
		e.text(o, "command_line", strings.Join(args, " "))
	}
	if known(quark.FieldEnviron) {
		variables := splitNUL(p.Environ)
		o.list("env_vars", variables)
		if text := strings.Join(variables, "\x00"); !utf8.ValidString(text) {
			e.broken = append(e.broken, "env_vars", text)
		}
	}
	if known(quark.FieldTTY) {
		o.flag("interactive", p.TTY.Major >= 136 && p.TTY.Major <= 143 || p.TTY.Major == 4 && p.TTY.Minor <= 255)
		if p.TTY.Major != 0 {
			o.open("tty")
			o.open("char_device")
			o.number("major", uint64(p.TTY.Major))
			o.number("minor", uint64(p.TTY.Minor))
			o.end()
			o.end()
		}
	}
	c := &p.Cred
	if known(quark.FieldUIDs) {
		e.user(o, "user", p, c.EUID)
		e.user(o, "real_user", p, c.UID)
	}
	if known(quark.FieldSUID) {
		e.user(o, "saved_user", p, c.SUID)
	}
	if known(quark.FieldGIDs) {
		e.group(o, "group", p, c.EGID)
		e.group(o, "real_group", p, c.GID)
	}
	if known(quark.FieldSGID) {
		e.group(o, "saved_group", p, c.SGID)
	}
}

// splitNUL splits a string of NUL-terminated strings.
func splitNUL(all []byte) []string {
	if len(all) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(all), "\x00"), "\x00")
}

func (e *Encoder) user(o *object, key string, p *quark.Process, id uint32) {
	e.named(o, key, p, id, (*quark.Names).User)
}

func (e *Encoder) group(o *object, key string, p *quark.Process, id uint32) {
	e.named(o, key, p, id, (*quark.Names).Group)
}

func (e *Encoder) named(o *object, key string, p *quark.Process, id uint32, name func(*quark.Names, *quark.Process, uint32) string) {
	o.open(key)
	o.text("id", strconv.FormatUint(uint64(id), 10))
	if e.Names != nil {
		o.textIf("name", name(e.Names, p, id))
	}
	o.end()
}

// users returns the user ids of a process and their names, each once.
func (e *Encoder) users(p *quark.Process) (all []string) {
	ids := []uint32{p.Cred.EUID, p.Cred.UID}
	if p.Known.Has(quark.FieldSUID) {
		ids = append(ids, p.Cred.SUID)
	}
	for _, id := range ids {
		words := []string{strconv.FormatUint(uint64(id), 10)}
		if e.Names != nil {
			words = append(words, e.Names.User(p, id))
		}
		for _, s := range words {
			if s != "" && !slices.Contains(all, s) {
				all = append(all, s)
			}
		}
	}
	return all
}

// fieldNames returns the names of a set of fields.
func fieldNames(set quark.Fields) (out []string) {
	for f := range quark.Field(quark.NumFields) {
		if set.Has(f) {
			out = append(out, f.String())
		}
	}
	return out
}
