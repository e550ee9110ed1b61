package filter

import (
	"math"
	"strings"

	"github.com/quark-linux/quark/engine"
)

// numberField is a field of an event whose value is a number.
type numberField struct {
	fields engine.Fields // that have to be known
	max    uint64
	// ofEnd is set for what only the end of a process has.
	ofEnd bool
	// get returns bounds of the value: both are the value unless it is not known better. ok is
	// false if the event has none.
	get func(m *Matcher, ev *engine.Event) (least, most uint64, ok bool)
	// named, if not nil, returns the number that has a name.
	named func(name string) (n uint64, ok bool)
	times bool // the value is a time in nanoseconds
}

// textField is a field of an event whose value is a text.
type textField struct {
	fields engine.Fields
	path   bool // patterns know slashes
	// ofImage is set for what a thread of the kernel does not have.
	ofImage bool
	get     func(m *Matcher, p *engine.Process) string
	among   []string // the values there are, nil if there are others
}

func number(f engine.Fields, get func(p *engine.Process) uint32) *numberField {
	return &numberField{fields: f, max: math.MaxUint32, get: func(_ *Matcher, ev *engine.Event) (uint64, uint64, bool) {
		n := uint64(get(ev.Process))
		return n, n, true
	}}
}

func login(get func(p *engine.Process) uint32) *numberField {
	f := number(engine.FieldLogin.Set(), get)
	f.named = func(name string) (uint64, bool) { return engine.LoginUnset, name == "unset" }
	return f
}

var numbers = map[string]*numberField{
	"pid":  number(0, func(p *engine.Process) uint32 { return p.PID }),
	"ppid": number(engine.FieldPPID.Set(), func(p *engine.Process) uint32 { return p.PPID }),
	"pgid": number(engine.FieldPGID.Set(), func(p *engine.Process) uint32 { return p.PGID }),
	"sid":  number(engine.FieldSID.Set(), func(p *engine.Process) uint32 { return p.SID }),

	"uid":  number(engine.FieldUIDs.Set(), func(p *engine.Process) uint32 { return p.Cred.UID }),
	"euid": number(engine.FieldUIDs.Set(), func(p *engine.Process) uint32 { return p.Cred.EUID }),
	"suid": number(engine.FieldSUID.Set(), func(p *engine.Process) uint32 { return p.Cred.SUID }),
	"gid":  number(engine.FieldGIDs.Set(), func(p *engine.Process) uint32 { return p.Cred.GID }),
	"egid": number(engine.FieldGIDs.Set(), func(p *engine.Process) uint32 { return p.Cred.EGID }),
	"sgid": number(engine.FieldSGID.Set(), func(p *engine.Process) uint32 { return p.Cred.SGID }),

	"login_uid":     login(func(p *engine.Process) uint32 { return p.Login.UID }),
	"login_session": login(func(p *engine.Process) uint32 { return p.Login.Session }),

	"uts_ns":    number(engine.FieldUTSNS.Set(), func(p *engine.Process) uint32 { return p.NS.UTS }),
	"ipc_ns":    number(engine.FieldIPCNS.Set(), func(p *engine.Process) uint32 { return p.NS.IPC }),
	"mnt_ns":    number(engine.FieldMntNS.Set(), func(p *engine.Process) uint32 { return p.NS.Mnt }),
	"net_ns":    number(engine.FieldNetNS.Set(), func(p *engine.Process) uint32 { return p.NS.Net }),
	"pid_ns":    number(engine.FieldPIDNS.Set(), func(p *engine.Process) uint32 { return p.NS.PID }),
	"ns_pid":    number(engine.FieldPIDNS.Set(), func(p *engine.Process) uint32 { return p.NSPID }),
	"user_ns":   number(engine.FieldUserNS.Set(), func(p *engine.Process) uint32 { return p.NS.User }),
	"cgroup_ns": number(engine.FieldCgroupNS.Set(), func(p *engine.Process) uint32 { return p.NS.Cgroup }),
	"time_ns":   number(engine.FieldTimeNS.Set(), func(p *engine.Process) uint32 { return p.NS.Time }),

	"exit_code": {fields: engine.FieldExit.Set(), max: 255, ofEnd: true, get: func(_ *Matcher, ev *engine.Event) (uint64, uint64, bool) {
		code := uint64(ev.Process.Task.Exit.Code())
		return code, code, ev.Process.Task.Exit.Signal() == 0
	}},
	"signal": {fields: engine.FieldExit.Set(), max: 127, ofEnd: true, named: signalNumber, get: func(_ *Matcher, ev *engine.Event) (uint64, uint64, bool) {
		signal := uint64(ev.Process.Task.Exit.Signal())
		return signal, signal, true
	}},
	"duration": {fields: engine.FieldExit.Set(), max: math.MaxInt64, ofEnd: true, times: true, get: (*Matcher).duration},
}

var texts = map[string]*textField{
	"comm":   {fields: engine.FieldComm.Set(), get: func(_ *Matcher, p *engine.Process) string { return p.Comm }},
	"exe":    {fields: engine.FieldFilename.Set(), path: true, ofImage: true, get: func(_ *Matcher, p *engine.Process) string { return p.Filename }},
	"cwd":    {fields: engine.FieldCwd.Set(), path: true, get: func(_ *Matcher, p *engine.Process) string { return p.Cwd }},
	"cgroup": {fields: engine.FieldCgroup.Set(), path: true, get: func(_ *Matcher, p *engine.Process) string { return p.Cgroup }},
	"argv":   {fields: engine.FieldCmdline.Set()}, // see argvTerm

	"container": {fields: engine.FieldCgroup.Set(), get: func(m *Matcher, p *engine.Process) string { return m.container(p).ID }},
	"runtime":   {fields: engine.FieldCgroup.Set(), get: func(m *Matcher, p *engine.Process) string { return m.container(p).Runtime }},
	"pod":       {fields: engine.FieldCgroup.Set(), get: func(m *Matcher, p *engine.Process) string { return m.container(p).Pod }},

	"entry": {fields: engine.FieldEntry.Set(), get: func(_ *Matcher, p *engine.Process) string { return p.EntryType.String() }, among: entryTypes()},
}

func entryTypes() (names []string) {
	for t := engine.EntryUnknown; t <= engine.EntryTerminal; t++ {
		names = append(names, t.String())
	}
	return names
}

// signalNumber returns the number of a signal's name, with SIG before it or without.
func signalNumber(name string) (uint64, bool) {
	for n := 1; n < 32; n++ {
		if full := engine.SignalName(n); name == full || "SIG"+name == full {
			return uint64(n), true
		}
	}
	return 0, false
}

// container returns the container of p, whose cgroup is known.
func (m *Matcher) container(p *engine.Process) *engine.Container {
	if m.cgroup != p.Cgroup || !m.cached {
		m.of, _ = p.Container()
		m.cgroup, m.cached = p.Cgroup, true
	}
	return &m.of
}

// duration returns how long the process of an event that has its end lived. A start time that was
// rounded down makes it longer than it was.
func (m *Matcher) duration(ev *engine.Event) (least, most uint64, ok bool) {
	p := ev.Process
	end := p.Task.Exit.Time
	begin, unit := p.Start-min(m.bootOffset, p.Start), max(p.StartUnit, 1)
	if ev.Thread || !p.Known.Has(engine.FieldStart) || unit > 1 {
		if len(ev.Parts) > 0 && ev.Parts[0].Kind == engine.KindFork {
			begin, unit = ev.Parts[0].Time, 1
		} else if ev.Thread || !p.Known.Has(engine.FieldStart) {
			return 0, math.MaxUint64, true
		}
	}
	most = end - min(begin, end)
	return most - min(unit-1, most), most, true
}

// kinds are the words that are a kind of event.
var kinds = func() map[string]engine.Events {
	of := map[string]engine.Events{"gone": engine.EventGone}
	for k := range engine.Kind(engine.NumKinds) {
		if k != engine.KindGap {
			of[strings.ToLower(k.String())] = k.Events()
		}
	}
	return of
}()
