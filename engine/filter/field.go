package filter

import (
	"cmp"
	"math"
	"os/user"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/engine/container"
	"github.com/quark-linux/quark/engine/schema"
)

// field is the left side of a term, which the term compares with values.
type field interface {
	// needs returns the fields that must be known, and the kinds of events with the value, 0
	// for all.
	needs() (engine.Fields, engine.Events)
	// term parses the operator and the values after the field's name.
	term(p *parser, name string) node
}

// numberField is a field of an event with a number.
type numberField struct {
	fields engine.Fields
	of     engine.Events // kinds with the field, 0 for all: a term is false for others
	// get returns bounds of the value. Both are equal if the value is known exactly. ok is
	// false if the event has no value.
	get func(m *Matcher, ev *engine.Event) (least, most uint64, ok bool)
	// least and most are the bounds of the field's numbers.
	least, most uint64
	// read, if not nil, parses numbers in another notation than decimal digits. want describes
	// the notation in error messages. If want is set, only this notation is accepted.
	read func(text string) (n uint64, ok bool)
	want string
	// database is the file in /etc with names for the numbers, or "".
	database string
}

// textField is a field of an event with a text.
type textField struct {
	fields engine.Fields
	of     engine.Events
	path   bool // patterns treat slashes specially
	rooted bool // the text begins with a slash, or with ( if it can't be reached
	most   int  // the longest text in bytes, 0 without a limit
	// ofImage is set for fields that a kernel thread lacks.
	ofImage bool
	// get returns the text. ok is false if the whole text is not known.
	get   func(m *Matcher, ev *engine.Event) (text string, ok bool)
	among []string // all possible values, nil without a limit
	// digits is the number of hexadecimal digits of the text, 0 for other texts.
	digits int
}

// listField is a list of texts that end in NULs. One matching text is enough. A kernel thread has
// no such list.
type listField struct {
	fields engine.Fields
	get    func(p *engine.Process) []byte
	prefix string // of the texts that are compared, without this prefix
}

// setField is a set of named bits. One matching bit is enough.
type setField struct {
	fields engine.Fields
	of     engine.Events
	names  []string // of the bits
	get    func(ev *engine.Event) uint
}

func (f *numberField) needs() (engine.Fields, engine.Events) { return f.fields, f.of }
func (f *textField) needs() (engine.Fields, engine.Events)   { return f.fields, f.of }
func (f *listField) needs() (engine.Fields, engine.Events)   { return f.fields, 0 }
func (f *setField) needs() (engine.Fields, engine.Events)    { return f.fields, f.of }

const (
	ends  = engine.EventExit | engine.EventGone
	fails = engine.EventExecFailed

	// threadKinds are the kinds that single threads have.
	threadKinds = engine.EventFork | engine.EventExit | engine.EventSetProcTitle | engine.EventIDChange | engine.EventPtrace | engine.EventNSChange
)

// fields are the fields of terms, without the variables of the environment: the rows of package
// schema except times, masks and marks, and fields derived from these rows.
var fields = func() map[string]field {
	all := map[string]field{
		"exe_flags":  &setField{engine.FieldExeFile.Set(), 0, []string{"set_uid", "set_gid", "other_writable", "removed"}, executableFlags},
		"ns_changed": &setField{0, engine.EventNSChange, engine.NSNames[:], func(ev *engine.Event) uint { return uint(ev.NSChange.Changed) }},
		"exit_code": &numberField{fields: engine.FieldExit.Set(), of: ends, most: 255, get: func(_ *Matcher, ev *engine.Event) (uint64, uint64, bool) {
			code := uint64(ev.Process.Task.Exit.Code())
			return code, code, ev.Process.Task.Exit.Signal() == 0
		}},
		"duration": &numberField{fields: engine.FieldExit.Set(), of: ends, most: math.MaxUint64, read: duration, want: aTime, get: (*Matcher).duration},
		"cpu_time": &numberField{fields: engine.FieldCPUTime.Set(), of: ends, most: math.MaxUint64, read: duration, want: aTime, get: func(_ *Matcher, ev *engine.Event) (uint64, uint64, bool) {
			return exactBounds(ev.Process.Usage.UserTime + ev.Process.Usage.SystemTime)
		}},
		"exec_failed_errno": &numberField{of: fails, least: 1, most: 4095, read: errorNumber, get: func(_ *Matcher, ev *engine.Event) (uint64, uint64, bool) {
			if ev.Failed.Errno == 0 {
				return 0, math.MaxUint64, true
			}
			return exactBounds(uint64(ev.Failed.Errno))
		}},
		"old_ppid": &numberField{of: engine.EventReparent, most: maxPID, get: func(_ *Matcher, ev *engine.Event) (uint64, uint64, bool) {
			return exactBounds(uint64(ev.OldPPID))
		}},
		"cgroup_change_by_pid": &numberField{of: engine.EventCgroupChange, most: maxPID, get: func(_ *Matcher, ev *engine.Event) (uint64, uint64, bool) {
			return exactBounds(uint64(ev.CgroupChangeBy.PID))
		}},
		"exec_failed_path": &textField{of: fails, path: true, get: func(_ *Matcher, ev *engine.Event) (string, bool) {
			return ev.Failed.Path, ev.Failed.PathKnown && !ev.Failed.PathTruncated
		}},
		"container_id":      ofContainer(func(c *engine.Container) string { return c.ID }),
		"container_runtime": ofContainer(func(c *engine.Container) string { return c.Runtime }),
		"container_pod":     ofContainer(func(c *engine.Container) string { return c.Pod }),
		"container_unit":    ofContainer(func(c *engine.Container) string { return c.Unit }),
		"entity_id":         &textField{fields: engine.FieldStart.Set(), digits: 32, get: (*Matcher).entityID},
	}
	rows := engine.Rows()
	for i := range rows {
		r := &rows[i]
		if f := fieldOf(r); f != nil && all[r.Name] == nil {
			all[r.Name] = f
		}
	}
	for _, name := range []string{"pid", "ns_pid", "ppid", "pgid", "sid", "birth_parent_tid", "entry_leader"} {
		all[name].(*numberField).most = maxPID
	}
	for _, name := range []string{"pid", "ns_pid"} {
		all[name].(*numberField).least = 1
	}
	// SECCOMP_MODE_DEAD is 3. clone(2) has 8 bits for the signal.
	for name, most := range map[string]uint64{"no_new_privs": 1, "seccomp": 3, "parent_signal": 255} {
		all[name].(*numberField).most = most
	}
	for name, f := range all {
		if strings.HasSuffix(name, "_ns") {
			f.(*numberField).least = 1
		}
	}
	for _, name := range []string{"exe", "cwd", "cgroup"} {
		all[name].(*textField).rooted = true
	}
	all["comm"].(*textField).most = maxComm
	all["entry_leader_type"].(*textField).among = texts(engine.EntryUnknown, engine.EntryTerminal)
	for _, name := range []string{"stdin", "stdout", "stderr"} {
		all[name+"_type"].(*textField).among = texts(engine.StreamUnknown, engine.StreamOther)
		all[name+"_family"].(*textField).among = texts(engine.Family(0), 255)
	}
	all["container_runtime"].(*textField).among = append([]string{""}, container.Runtimes...)
	return all
}()

// executable is the field whose values may be a name without a slash, which means the last
// component. The path of a cgroup above the root of a namespace contains ".." components.
var executable, cgroup = fields["exe"].(*textField), fields["cgroup"].(*textField)

// fieldOf returns the field of a row, or nil if the row has none.
func fieldOf(r *engine.Row) field {
	switch r.Shape {
	case schema.Uint:
		if r.Unit == schema.Nanosecond && r.Fields&engine.FieldsUsage == 0 || r.Fields == engine.FieldExit.Set() || r.Fields == 0 && r.Name != "pid" {
			return nil
		}
		return numberOf(r)
	case schema.Decimal, schema.Device, schema.Signal:
		return numberOf(r)
	case schema.String, schema.Path, schema.Enum:
		return &textField{fields: r.Fields, path: r.Shape == schema.Path, ofImage: r.Fields&ofPrograms != 0, get: func(_ *Matcher, ev *engine.Event) (string, bool) {
			return r.Text(ev.Process), ev.Process.Truncated&r.Fields == 0
		}}
	case schema.List:
		if r.Fields != engine.FieldEnviron.Set() {
			return &listField{fields: r.Fields, get: r.List}
		}
	case schema.Set:
		names := strings.Split((engine.BySetUID | engine.BySetGID | engine.ByFileCaps).String(), ",")
		return &setField{r.Fields, 0, names, func(ev *engine.Event) uint { return uint(r.Number(ev.Process)) }}
	}
	return nil
}

// numberOf returns the field of a row with a number.
func numberOf(r *engine.Row) *numberField {
	f := &numberField{fields: r.Fields, most: math.MaxUint32}
	f.get = func(_ *Matcher, ev *engine.Event) (uint64, uint64, bool) { return exactBounds(r.Number(ev.Process)) }
	switch {
	case r.Shape == schema.Device:
		f.most, f.want, f.read = math.MaxUint64, "a device such as 8:1", device
	case r.Shape == schema.Signal:
		f.most, f.read = maxSignal, signalNumber
	case r.Shape == schema.Decimal:
		f.most = math.MaxUint64
	case r.Fields == engine.FieldLogin.Set():
		f.read = func(name string) (uint64, bool) { return engine.LoginUnset, name == "unset" }
	}
	switch {
	case strings.HasSuffix(r.Name, "uid"):
		f.database = "passwd"
	case strings.HasSuffix(r.Name, "gid") && r.Name != "pgid":
		f.database = "group"
	}
	if r.Fields&engine.FieldsUsage != 0 {
		f.want, f.read = aSize, size
		if r.Unit == schema.Nanosecond {
			f.want, f.read = aTime, duration
		}
	}
	if r.Fields&(1<<engine.FieldExit|engine.FieldsUsage) != 0 {
		f.of = ends
	}
	return f
}

// hostID returns the id of a user or group of this host, from a file in /etc.
func hostID(database, name string) (uint64, bool) {
	id := ""
	if u, err := user.Lookup(name); err == nil && database == "passwd" {
		id = u.Uid
	} else if g, err := user.LookupGroup(name); err == nil && database == "group" {
		id = g.Gid
	}
	n, err := strconv.ParseUint(id, 10, 32)
	return n, err == nil
}

// maxComm is the longest comm that the kernel keeps, TASK_COMM_LEN without the final NUL.
const maxComm = 15

// maxSignal is the highest signal, SIGRTMAX.
const maxSignal = 64

// maxPID is the highest pid: PID_MAX_LIMIT - 1 of linux/threads.h.
const maxPID = 1<<22 - 1

// environment is the prefix of names of environment variables.
const environment = "environ."

func exactBounds(n uint64) (least, most uint64, ok bool) { return n, n, true }

func device(text string) (n uint64, ok bool) {
	major, minor, _ := strings.Cut(text, ":")
	a, err := strconv.ParseUint(major, 10, 12) // bits as in dev_t of the kernel
	b, err2 := strconv.ParseUint(minor, 10, 20)
	return a<<32 | b, err == nil && err2 == nil
}

const (
	aTime = "a time such as 1.5s, 200ms or 1h"
	aSize = "a number of bytes such as 4096, 10K, 2M or 1G"
)

func ofContainer(get func(c *engine.Container) string) *textField {
	return &textField{fields: engine.FieldCgroup.Set(), get: func(m *Matcher, ev *engine.Event) (string, bool) {
		return get(m.container(ev.Process)), !ev.Process.Truncated.Has(engine.FieldCgroup)
	}}
}

// texts returns the texts of the values from first to last.
func texts[T interface {
	~uint8 | ~uint16
	String() string
}](first, last T) (list []string) {
	for v := first; v <= last; v++ {
		list = append(list, v.String())
	}
	return list
}

func executableFlags(ev *engine.Event) (bits uint) {
	const otherWritable = 0o002
	p := ev.Process
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

// signalNumber returns the number of a signal from its name, with or without the prefix SIG.
// Real-time signals have numbers as names, or names relative to RTMIN or RTMAX, as in kill(1).
func signalNumber(name string) (uint64, bool) {
	name = strings.TrimPrefix(name, "SIG")
	// Libraries reserve the signals 32 and 33.
	for base, first := range map[string]int{"RTMIN": 34, "RTMAX": 64} {
		if offset, ok := strings.CutPrefix(name, base); ok {
			n, err := strconv.Atoi(cmp.Or(offset, "0"))
			n += first
			return uint64(n), err == nil && 34 <= n && n <= 64
		}
	}
	for n := 1; n <= 64; n++ {
		if "SIG"+name == engine.SignalName(n) {
			return uint64(n), true
		}
	}
	return 0, false
}

// errorNumber returns the number of an error with which an exec can fail, from its name.
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

// size returns a number of bytes, from a text in bytes, KiB, MiB or GiB.
func size(text string) (uint64, bool) {
	digits := strings.TrimRight(text, "KMG")
	n, err := strconv.ParseUint(digits, 10, 64)
	shift := 0
	if len(digits)+1 == len(text) {
		shift = 10 * (1 + strings.Index("KMG", text[len(digits):]))
	}
	return n << shift, err == nil && len(digits)+1 >= len(text) && n<<shift>>shift == n
}

// container returns the container of p. It is empty if the cgroup is cut.
func (m *Matcher) container(p *engine.Process) *engine.Container {
	if m.cgroup != p.Cgroup || !m.cached {
		m.of, m.cached = p.Container() // a cut cgroup may have the same text
		m.cgroup = p.Cgroup
	}
	return &m.of
}

// entityID returns the unique id of the process, which is valid until the next call.
func (m *Matcher) entityID(ev *engine.Event) (id string, known bool) {
	m.id = ev.Process.AppendEntityID(m.id[:0], &m.clock.Host)
	return unsafe.String(unsafe.SliceData(m.id), len(m.id)), len(m.id) > 0
}

// duration returns bounds of the lifetime of the process of an EXIT, including suspends. The bounds
// differ if /proc rounded the start time down.
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

// kinds maps each word for a kind of event to the kind.
var kinds = func() map[string]engine.Events {
	of := map[string]engine.Events{"gone": engine.EventGone}
	for k := range engine.Kind(engine.NumKinds) {
		if k != engine.KindGap {
			of[strings.ToLower(k.String())] = k.Events()
		}
	}
	return of
}()
