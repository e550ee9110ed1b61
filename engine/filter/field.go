package filter

import (
	"math"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/quark-linux/quark/engine"
)

// field is what a term compares with values.
type field interface {
	// needs returns what has to be known.
	needs() engine.Fields
	// term parses the rest of a term, after the field's name.
	term(p *parser, name string) node
}

// numberField is a field of an event whose value is a number.
type numberField struct {
	fields engine.Fields
	of     engine.Events // that have it, 0 for all: of others a term is false
	// get returns bounds of the value: both are the value unless it is not known better. ok is
	// false if the event has none.
	get func(m *Matcher, ev *engine.Event) (least, most uint64, ok bool)
	// least and most are the bounds of what it can be compared with.
	least, most uint64
	// read, if not nil, returns the number that is written in another way than in digits alone,
	// which must not be if want is set. want is what an error says.
	read func(text string) (n uint64, ok bool)
	want string
}

// textField is a field of an event whose value is a text.
type textField struct {
	fields engine.Fields
	of     engine.Events
	path   bool // patterns know slashes
	rooted bool // it begins with a slash, or with ( if it is out of reach
	most   int  // the most bytes that it has, 0 without a limit
	// ofImage is set for what a thread of the kernel does not have.
	ofImage bool
	// get returns the text; ok is false if it is not known whole.
	get   func(m *Matcher, ev *engine.Event) (text string, ok bool)
	among []string // the values there are, nil if there are others
}

// listField is a list of texts that NULs end, of which one is enough, and which a thread of the
// kernel does not have.
type listField struct {
	field  engine.Field
	get    func(p *engine.Process) []byte
	prefix string // of the texts that are looked at, which is left out
}

// setField has some of a few values, of which one is enough.
type setField struct {
	fields engine.Fields
	names  []string // of the bits
	get    func(p *engine.Process) uint
}

func (f *numberField) needs() engine.Fields { return f.fields }
func (f *textField) needs() engine.Fields   { return f.fields }
func (f *listField) needs() engine.Fields   { return f.field.Set() }
func (f *setField) needs() engine.Fields    { return f.fields }

const (
	ends  = engine.EventExit | engine.EventGone
	fails = engine.EventExecFailed
)

// fields are those of a term, without the variables of the environment.
var fields = map[string]field{
	"pid":  from(1, number(0, func(p *engine.Process) uint32 { return p.PID })),
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

	"tty": device(engine.FieldTTY, func(p *engine.Process) (major, minor uint32) { return p.TTY.Major, p.TTY.Minor }),

	"uts_ns":    number(engine.FieldUTSNS.Set(), func(p *engine.Process) uint32 { return p.NS.UTS }),
	"ipc_ns":    number(engine.FieldIPCNS.Set(), func(p *engine.Process) uint32 { return p.NS.IPC }),
	"mnt_ns":    number(engine.FieldMntNS.Set(), func(p *engine.Process) uint32 { return p.NS.Mnt }),
	"net_ns":    number(engine.FieldNetNS.Set(), func(p *engine.Process) uint32 { return p.NS.Net }),
	"pid_ns":    number(engine.FieldPIDNS.Set(), func(p *engine.Process) uint32 { return p.NS.PID }),
	"ns_pid":    from(1, number(engine.FieldPIDNS.Set(), func(p *engine.Process) uint32 { return p.NSPID })),
	"user_ns":   number(engine.FieldUserNS.Set(), func(p *engine.Process) uint32 { return p.NS.User }),
	"cgroup_ns": number(engine.FieldCgroupNS.Set(), func(p *engine.Process) uint32 { return p.NS.Cgroup }),
	"time_ns":   number(engine.FieldTimeNS.Set(), func(p *engine.Process) uint32 { return p.NS.Time }),

	"exe_uid":    number(engine.FieldExeFile.Set(), func(p *engine.Process) uint32 { return p.ExeFile.UID }),
	"exe_gid":    number(engine.FieldExeFile.Set(), func(p *engine.Process) uint32 { return p.ExeFile.GID }),
	"exe_device": device(engine.FieldExeFile, func(p *engine.Process) (major, minor uint32) { return p.ExeFile.Major(), p.ExeFile.Minor() }),
	"exe_inode": &numberField{fields: engine.FieldExeFile.Set(), most: math.MaxUint64, get: func(_ *Matcher, ev *engine.Event) (uint64, uint64, bool) {
		return exactly(ev.Process.ExeFile.Inode)
	}},
	"exe_flags":  &setField{engine.FieldExeFile.Set(), []string{"set_uid", "set_gid", "other_writable", "removed"}, executableFlags},
	"privileges": &setField{engine.FieldPrivileges.Set(), strings.Split((engine.BySetUID | engine.BySetGID | engine.ByFileCaps).String(), ","), func(p *engine.Process) uint { return uint(p.Privileges) }},

	"exit_code": &numberField{fields: engine.FieldExit.Set(), of: ends, most: 255, get: func(_ *Matcher, ev *engine.Event) (uint64, uint64, bool) {
		code := uint64(ev.Process.Task.Exit.Code())
		return code, code, ev.Process.Task.Exit.Signal() == 0
	}},
	"signal": &numberField{fields: engine.FieldExit.Set(), of: ends, most: 127, read: signalNumber, get: func(_ *Matcher, ev *engine.Event) (uint64, uint64, bool) {
		return exactly(uint64(ev.Process.Task.Exit.Signal()))
	}},
	"duration": &numberField{fields: engine.FieldExit.Set(), of: ends, read: duration, want: aTime, get: (*Matcher).duration},

	"cpu_time":    usage(engine.FieldCPUTime, aTime, func(u *engine.Usage) uint64 { return u.UserTime + u.SystemTime }),
	"user_time":   usage(engine.FieldCPUTime, aTime, func(u *engine.Usage) uint64 { return u.UserTime }),
	"system_time": usage(engine.FieldCPUTime, aTime, func(u *engine.Usage) uint64 { return u.SystemTime }),
	"peak_rss":    usage(engine.FieldPeakRSS, aSize, func(u *engine.Usage) uint64 { return u.PeakRSS }),
	"rchar":       usage(engine.FieldIO, aSize, func(u *engine.Usage) uint64 { return u.RChar }),
	"wchar":       usage(engine.FieldIO, aSize, func(u *engine.Usage) uint64 { return u.WChar }),
	"read_bytes":  usage(engine.FieldIO, aSize, func(u *engine.Usage) uint64 { return u.ReadBytes }),
	"write_bytes": usage(engine.FieldIO, aSize, func(u *engine.Usage) uint64 { return u.WriteBytes }),

	"errno": &numberField{of: fails, most: math.MaxUint16, read: errorNumber, get: func(_ *Matcher, ev *engine.Event) (uint64, uint64, bool) {
		if ev.Failed.Errno == 0 {
			return 0, math.MaxUint64, true
		}
		return exactly(uint64(ev.Failed.Errno))
	}},
	"failed_path": &textField{of: fails, path: true, get: func(_ *Matcher, ev *engine.Event) (string, bool) {
		return ev.Failed.Path, ev.Failed.PathKnown && !ev.Failed.PathTruncated
	}},

	"comm": &textField{fields: engine.FieldComm.Set(), most: maxComm, get: func(_ *Matcher, ev *engine.Event) (string, bool) {
		return ev.Process.Comm, !ev.Process.Truncated.Has(engine.FieldComm)
	}},
	"exe":       executable,
	"exec_path": ofImage(engine.FieldExecPath, func(_ *Matcher, p *engine.Process) string { return p.ExecPath }),
	"cwd":       rooted(engine.FieldCwd, func(_ *Matcher, p *engine.Process) string { return p.Cwd }),
	"cgroup":    rooted(engine.FieldCgroup, func(_ *Matcher, p *engine.Process) string { return p.Cgroup }),
	"argv":      &listField{field: engine.FieldArgs, get: func(p *engine.Process) []byte { return p.Args }},

	"container": text(engine.FieldCgroup, false, func(m *Matcher, p *engine.Process) string { return m.container(p).ID }),
	"runtime":   text(engine.FieldCgroup, false, func(m *Matcher, p *engine.Process) string { return m.container(p).Runtime }),
	"pod":       text(engine.FieldCgroup, false, func(m *Matcher, p *engine.Process) string { return m.container(p).Pod }),

	"entry": &textField{fields: engine.FieldEntryLeader.Set(), among: entryTypes(), get: func(_ *Matcher, ev *engine.Event) (string, bool) {
		return ev.Process.EntryType.String(), true
	}},
	"entity_id": &textField{fields: engine.FieldStart.Set(), get: (*Matcher).entityID},
}

// executable is the field exe, where a value without a slash is one of the last name.
var executable = func() *textField {
	f := ofImage(engine.FieldExe, func(_ *Matcher, p *engine.Process) string { return p.Exe })
	f.rooted = true
	return f
}()

// maxComm is the longest comm that the kernel keeps, TASK_COMM_LEN without the final NUL.
const maxComm = 15

// environment begins the name of a variable of the environment.
const environment = "env."

func exactly(n uint64) (least, most uint64, ok bool) { return n, n, true }

func number(f engine.Fields, get func(p *engine.Process) uint32) *numberField {
	return &numberField{fields: f, most: math.MaxUint32, get: func(_ *Matcher, ev *engine.Event) (uint64, uint64, bool) {
		return exactly(uint64(get(ev.Process)))
	}}
}

// from makes least the least value that the field can be compared with: no process has a lower one.
func from(least uint64, f *numberField) *numberField {
	f.least = least
	return f
}

func login(get func(p *engine.Process) uint32) *numberField {
	f := number(engine.FieldLogin.Set(), get)
	f.read = func(name string) (uint64, bool) { return engine.LoginUnset, name == "unset" }
	return f
}

func device(f engine.Field, get func(p *engine.Process) (major, minor uint32)) *numberField {
	together := func(major, minor uint32) uint64 { return uint64(major)<<32 | uint64(minor) }
	return &numberField{fields: f.Set(), want: "a device such as 8:1", get: func(_ *Matcher, ev *engine.Event) (uint64, uint64, bool) {
		return exactly(together(get(ev.Process)))
	}, read: func(text string) (n uint64, ok bool) {
		major, minor, _ := strings.Cut(text, ":")
		a, err := strconv.ParseUint(major, 10, 32)
		b, err2 := strconv.ParseUint(minor, 10, 32)
		return together(uint32(a), uint32(b)), err == nil && err2 == nil
	}}
}

const (
	aTime = "a time such as 1.5s, 200ms or 1h"
	aSize = "a number of bytes such as 4096, 10K, 2M or 1G"
)

// usage is a field of what a process has used.
func usage(f engine.Field, want string, get func(u *engine.Usage) uint64) *numberField {
	n := &numberField{fields: f.Set(), of: ends, want: want, read: size, get: func(_ *Matcher, ev *engine.Event) (uint64, uint64, bool) {
		if ev.Process.Usage == nil {
			return 0, math.MaxUint64, true
		}
		return exactly(get(ev.Process.Usage))
	}}
	if want == aTime {
		n.read = duration
	}
	return n
}

func text(f engine.Field, path bool, get func(m *Matcher, p *engine.Process) string) *textField {
	return &textField{fields: f.Set(), path: path, get: func(m *Matcher, ev *engine.Event) (string, bool) {
		return get(m, ev.Process), !ev.Process.Truncated.Has(f)
	}}
}

func rooted(f engine.Field, get func(m *Matcher, p *engine.Process) string) *textField {
	t := text(f, true, get)
	t.rooted = true
	return t
}

func ofImage(f engine.Field, get func(m *Matcher, p *engine.Process) string) *textField {
	t := text(f, true, get)
	t.ofImage = true
	return t
}

func entryTypes() (names []string) {
	for t := engine.EntryUnknown; t <= engine.EntryTerminal; t++ {
		names = append(names, t.String())
	}
	return names
}

func executableFlags(p *engine.Process) (bits uint) {
	const otherWritable = 0o002
	for i, mode := range []uint16{engine.ModeSetUID, engine.ModeSetGID, otherWritable} {
		if p.ExeFile.Mode&mode != 0 {
			bits |= 1 << i
		}
	}
	if p.ExeFile.Removed {
		bits |= 1 << 3
	}
	return bits
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

// errorNumber returns the number of the name of an error that an exec can fail with.
func errorNumber(name string) (uint64, bool) {
	for n := uint16(1); n < 256; n++ {
		if (&engine.FailedExec{Errno: n}).ErrnoName() == name {
			return uint64(n), true
		}
	}
	return 0, false
}

func duration(text string) (uint64, bool) {
	d, err := time.ParseDuration(text)
	return uint64(d), err == nil && d >= 0
}

// size returns a number of bytes, or of KiB, MiB or GiB.
func size(text string) (uint64, bool) {
	digits := strings.TrimRight(text, "KMG")
	n, err := strconv.ParseUint(digits, 10, 64)
	shift := 0
	if len(digits)+1 == len(text) {
		shift = 10 * (1 + strings.Index("KMG", text[len(digits):]))
	}
	return n << shift, err == nil && len(digits)+1 >= len(text) && n<<shift>>shift == n
}

// container returns the container of p, empty if its cgroup is cut.
func (m *Matcher) container(p *engine.Process) *engine.Container {
	if m.cgroup != p.Cgroup || !m.cached {
		m.of, m.cached = p.Container() // a cut cgroup may have the same text
		m.cgroup = p.Cgroup
	}
	return &m.of
}

// entityID returns the name of the process among all, which is valid until the next call.
func (m *Matcher) entityID(ev *engine.Event) (id string, known bool) {
	m.id = ev.Process.AppendEntityID(m.id[:0], &m.clock.Host)
	return unsafe.String(unsafe.SliceData(m.id), len(m.id)), len(m.id) > 0
}

// duration returns bounds of how long the process of an EXIT lived, suspends included. A start time
// that /proc rounded down makes them differ.
func (m *Matcher) duration(ev *engine.Event) (least, most uint64, ok bool) {
	p := ev.Process
	end := m.clock.Boot(p.Task.Exit.Time)
	begin, unit := p.Start, max(p.StartUnit, 1)
	if ev.Thread || !p.Known.Has(engine.FieldStart) || unit > 1 {
		if len(ev.Parts) > 0 && ev.Parts[0].Kind == engine.KindFork {
			begin, unit = m.clock.Boot(ev.Parts[0].Time), 1
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
