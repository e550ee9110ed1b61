package ecs

import (
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/exehash"
)

// Version is the version of the schema.
const Version = "8.17.0"

// Encoder makes documents of the events of a queue. It may be used from one goroutine at a time.
type Encoder struct {
	// Names, if it is not nil, has the names of the host's users and groups.
	Names *quark.Names
	// Hashes, if it is not nil, gives the documents of an EXEC the SHA-256 of the executable.
	Hashes *exehash.Cache

	q    *quark.Queue
	host *host
}

// NewEncoder returns an encoder for the events of q. It finds their relatives in q's table.
func NewEncoder(q *quark.Queue) *Encoder {
	h := q.Clock().Host
	return &Encoder{q: q, host: &host{
		Hostname: h.Name, Name: h.Name, ID: h.MachineID, Architecture: architecture(h.Arch), Boot: idOf(h.BootID),
		OS: &operatingSystem{Type: "linux", Kernel: h.Kernel},
	}}
}

// architecture returns uname(2)'s name for an architecture of Go, in the form of the schema.
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
// kind is a process that existed at the start. Call it before the next Get, as it describes
// relatives by the current state of the queue. If a relative's state is newer than the event, only
// its constant values are included.
func (e *Encoder) Append(b []byte, ev *quark.Event) ([]byte, error) {
	d := document{
		Timestamp: date(ev.Wall), ECS: version{Version}, Event: e.event(ev), Host: e.host,
		Quark: &own{Backend: e.q.Backend(), Monotonic: ev.Time, Unsure: ev.Unsure},
	}
	if len(ev.Rules) > 0 {
		d.Rule = &rule{ev.Rules}
	}
	switch {
	case ev.Events.Has(quark.EventGap):
		d.Quark.Gap = e.gap(&ev.Gap)
		d.Message = "events were lost: " + ev.Gap.Cause.String()
	case ev.Process != nil:
		e.process(&d, ev)
	}
	if ev.Events.Has(quark.EventExecFailed) {
		d.failed(&ev.Failed)
	}
	if ev.Events.Has(quark.EventPtrace) {
		d.Quark.Tracer = &ev.Tracer.PID
	}
	text, err := json.Marshal(&d)
	return append(b, text...), err
}

// action are the words of event.action, in the order in which they are joined.
var action = []struct {
	events quark.Events
	word   string
}{
	{quark.EventFork, "forked"},
	{quark.EventExec, "executed"},
	{quark.EventExecFailed, "exec-failed"},
	{quark.EventIDChange, "ids-changed"},
	{quark.EventSetProcTitle, "title-changed"},
	{quark.EventPtrace, "traced"},
	{quark.EventCoreDump, "core-dumped"},
	{quark.EventExit, "exited"},
	{quark.EventGone, "gone"},
}

func (e *Encoder) event(ev *quark.Event) event {
	c := e.q.Clock()
	out := event{Kind: "event", Category: []string{"process"}, Module: "quark", Dataset: "quark.process", Created: date(ev.Wall)}
	words := []string{"process"}
	for _, a := range action {
		if ev.Events.Has(a.events) {
			words = append(words, a.word)
		}
	}
	is := func(events quark.Events, kind string) {
		if ev.Events&events != 0 {
			out.Type = append(out.Type, kind)
		}
	}
	is(quark.EventFork|quark.EventExec, "start")
	is(quark.EventIDChange|quark.EventSetProcTitle, "change")
	is(quark.EventExit|quark.EventGone, "end")
	switch {
	case ev.Events.Has(quark.EventGap):
		out.Kind, out.Category, words, out.Type = "pipeline_error", nil, []string{"events-lost"}, []string{"error"}
	case ev.Events == 0:
		words, out.Type = []string{"process-existing"}, []string{"info"}
	case len(out.Type) == 0:
		// Also for a failed exec: no program started, and the schema has no error of
		// processes.
		out.Type = []string{"info"}
	}
	switch {
	case ev.Events.Has(quark.EventExecFailed):
		out.Outcome = "failure"
	case ev.Events.Has(quark.EventExit) && ev.Process != nil && ev.Process.Known.Has(quark.FieldExit):
		out.Outcome = "success"
		if ev.Process.Exit.WaitStatus != 0 {
			out.Outcome = "failure"
		}
	}
	if n := len(ev.Parts); n > 1 {
		out.Start, out.End = date(c.At(ev.Parts[0].Time)), date(c.At(ev.Parts[n-1].Time))
	}
	out.Action = strings.Join(words, "-")
	return out
}

func (e *Encoder) gap(g *quark.Gap) *gap {
	out := &gap{Cause: g.Cause.String(), Count: g.Count, From: date(e.q.Clock().At(g.From)), To: date(e.q.Clock().At(g.To))}
	if g.CPU != quark.AllCPUs {
		out.CPU = &g.CPU
	}
	return out
}

// process adds the fields of the event's process.
func (e *Encoder) process(d *document, ev *quark.Event) {
	p, c := ev.Process, e.q.Clock()
	d.Process, d.Tags = e.describe(p), p.Tags()
	out := d.Process
	env := strings.Join(out.EnvVars, "\x00")
	for name, text := range map[string]*string{"name": out.Name, "executable": out.Executable, "working_directory": out.WorkingDirectory,
		"command_line": out.CommandLine, "env_vars": &env} {
		d.Quark.keep(name, text)
	}
	if p.Known.Has(quark.FieldCaps) {
		out.Thread = &thread{Capabilities: &capabilities{names(p.Caps.Permitted), names(p.Caps.Effective)}}
	}
	if ev.Thread {
		if out.Thread == nil {
			out.Thread = new(thread)
		}
		out.Thread.ID = ev.TID
	}
	if p.Known.Has(quark.FieldCgroup) {
		d.Quark.Cgroup = p.Cgroup
		d.Quark.keep("cgroup", &p.Cgroup)
	}
	if p.Known.Has(quark.FieldLogin) && p.Login.UID != quark.LoginUnset {
		d.Quark.Login = &login{e.user(nil, p.Login.UID), p.Login.Session}
	}
	if in, _ := p.Container(); in.ID != "" {
		d.Container = &containerOf{ID: in.ID, Runtime: in.Runtime}
		if in.Pod != "" {
			d.Orchestrator = &orchestrator{Type: "kubernetes", Resource: resource{Type: "pod", ID: in.Pod}}
			if in.Runtime == "podman" {
				d.Orchestrator.Type = ""
			}
		}
	}
	if p.Known.Has(quark.FieldExit) {
		if p.Exited {
			out.End = date(c.At(p.Exit.Time))
		}
		if s := p.Exit.Signal(); s != 0 {
			d.Quark.Signal, d.Quark.CoreDumped = quark.SignalName(s), p.Exit.CoreDumped()
		} else {
			code := p.Exit.Code()
			out.ExitCode = &code
		}
	}
	d.Quark.Inferred, d.Quark.Cached, d.Quark.Truncated = p.Inferred, fields(p.Cached), fields(p.Truncated)
	if e.Hashes != nil && ev.Events.Has(quark.EventExec) {
		if sum, err := e.Hashes.Sum(p); err == nil { // else it is unknown
			out.Hash = &hash{hex.EncodeToString(sum.SHA256[:])}
			if sum.Cached {
				d.Quark.Cached = append(d.Quark.Cached, "hash")
			}
		}
	}
	e.relatives(out, ev)
	if p.Known.Has(quark.FieldPPID) && out.Parent.PID != p.PPID {
		d.Quark.PPID = &p.PPID
	}
	if out.User != nil {
		d.User = &user{ID: out.User.ID, Name: out.User.Name}
		d.Related = &related{User: ids(out)}
	}
}

// ids returns the user ids of a process and their names, each once.
func ids(p *process) (all []string) {
	for _, u := range []*user{p.User, p.RealUser, p.SavedUser} {
		if u == nil {
			continue
		}
		for _, s := range []string{u.ID, u.Name} {
			if s != "" && !slices.Contains(all, s) {
				all = append(all, s)
			}
		}
	}
	return all
}

// relatives fills in the parent and the leaders.
func (e *Encoder) relatives(out *process, ev *quark.Event) {
	p := ev.Process
	until := ev.Time
	if n := len(ev.Parts); n > 0 {
		until = ev.Parts[n-1].Time
	}
	of := func(r *quark.Process) *process {
		if r.PID == p.PID || r.AsOf() <= until {
			return e.describe(r)
		}
		return e.identity(r)
	}
	parent := p.Birth.Parent
	switch r := e.q.LookupIdentity(parent); {
	case p.Birth.Known.Has(quark.FieldStart) && r != nil:
		out.Parent = of(r)
	case p.Birth.Known.Has(quark.FieldPPID):
		out.Parent = &process{PID: parent.PID}
	case p.Known.Has(quark.FieldPPID):
		out.Parent = &process{PID: p.PPID}
	}
	leader := func(f quark.Field, pid uint32, r *quark.Process) *process {
		if !p.Known.Has(f) || pid == 0 {
			return nil
		}
		l, same := &process{PID: pid}, pid == p.PID
		if r != nil {
			l = of(r)
		}
		l.Same = &same
		return l
	}
	out.SessionLeader = leader(quark.FieldSID, p.SID, e.q.SessionLeader(p))
	out.GroupLeader = leader(quark.FieldPGID, p.PGID, e.q.GroupLeader(p))
	out.EntryLeader = leader(quark.FieldEntryLeader, p.EntryLeader.PID, e.q.LookupIdentity(p.EntryLeader))
	if out.EntryLeader != nil {
		out.EntryLeader.EntryMeta = &entryMeta{strings.ToLower(p.EntryType.String())}
	}
}

// identity returns the constant values of a process.
func (e *Encoder) identity(p *quark.Process) *process {
	out := &process{PID: p.PID}
	if p.Known.Has(quark.FieldStart) {
		out.Start = date(e.q.Clock().Started(p))
		out.EntityID, _ = p.EntityID(&e.q.Clock().Host)
	}
	if p.Known.Has(quark.FieldPIDNS) && p.NSPID != p.PID {
		out.VPID = p.NSPID
	}
	return out
}

// describe returns the known fields of a process.
func (e *Encoder) describe(p *quark.Process) *process {
	out, known := e.identity(p), p.Known.Has
	if known(quark.FieldComm) {
		out.Name = &p.Comm
	}
	if known(quark.FieldExe) {
		out.Executable = &p.Image.Exe
	}
	if known(quark.FieldCwd) {
		out.WorkingDirectory = &p.Cwd
	}
	if known(quark.FieldArgs) {
		for a := range p.Arguments() {
			out.Args = append(out.Args, string(a))
		}
		n, line := len(out.Args), strings.Join(out.Args, " ")
		out.ArgsCount, out.CommandLine = &n, &line
		if p.Truncated.Has(quark.FieldArgs) {
			out.ArgsCount = nil
		}
	}
	if known(quark.FieldEnviron) {
		for v := range p.Variables() {
			out.EnvVars = append(out.EnvVars, string(v))
		}
	}
	if known(quark.FieldTTY) {
		terminal := p.TTY.Major >= 136 && p.TTY.Major <= 143 || p.TTY.Major == 4 && p.TTY.Minor <= 255
		out.Interactive = &terminal
		if p.TTY.Major != 0 {
			out.TTY = &tty{device{p.TTY.Major, p.TTY.Minor}}
		}
	}
	e.ids(out, p)
	return out
}

func (e *Encoder) ids(out *process, p *quark.Process) {
	c := &p.Cred
	if p.Known.Has(quark.FieldUIDs) {
		out.User, out.RealUser = e.user(p, c.EUID), e.user(p, c.UID)
	}
	if p.Known.Has(quark.FieldSUID) {
		out.SavedUser = e.user(p, c.SUID)
	}
	if p.Known.Has(quark.FieldGIDs) {
		out.Group, out.RealGroup = e.group(p, c.EGID), e.group(p, c.GID)
	}
	if p.Known.Has(quark.FieldSGID) {
		out.SavedGroup = e.group(p, c.SGID)
	}
}

func (e *Encoder) user(p *quark.Process, id uint32) *user { return e.named(p, id, (*quark.Names).User) }

func (e *Encoder) group(p *quark.Process, id uint32) *user {
	return e.named(p, id, (*quark.Names).Group)
}

func (e *Encoder) named(p *quark.Process, id uint32, name func(*quark.Names, *quark.Process, uint32) string) *user {
	u := &user{ID: decimal(id)}
	if e.Names != nil {
		u.Name = name(e.Names, p, id)
	}
	return u
}

// fields returns the names of a set.
func fields(set quark.Fields) (out []string) {
	for f := range quark.Field(quark.NumFields) {
		if set.Has(f) {
			out = append(out, f.String())
		}
	}
	return out
}

func date(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000000000Z")
}
