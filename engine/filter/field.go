package filter

import (
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

// field is a left side of terms: terms compare it with values.
type field interface {
	// needs returns the fields that must be known.
	needs() engine.Fields
	// term parses the rest of a term, after the field's name.
	term(p *parser, name string) node
}

// numberField is a field of an event with a number.
type numberField struct {
	fields engine.Fields
	of     engine.Events // that have it, 0 for all: of others a term is false
	// get returns bounds of the value: both are the value unless it is not known better. ok is
	// false if the event has none.
	get func(m *Matcher, ev *engine.Event) (least, most uint64, ok bool)
	// least and most are the bounds of the numbers it can be compared with.
	least, most uint64
	// read, if not nil, parses a number that is not written in digits alone. want describes the
	// notation for error messages; if it is set, a number must use the notation.
	read func(text string) (n uint64, ok bool)
	want string
	// database is the file in /etc with names for the numbers, "" for none.
	database string
}

// textField is a field of an event with a text.
type textField struct {
	fields engine.Fields
	of     engine.Events
	path   bool // patterns know slashes
	rooted bool // it begins with a slash, or with ( if it is out of reach
	most   int  // the most bytes that it has, 0 without a limit
	// ofImage is set for fields that a kernel thread lacks.
	ofImage bool
	// get returns the text; ok is false if it is not known whole.
	get   func(m *Matcher, ev *engine.Event) (text string, ok bool)
	among []string // the values there are, nil if there are others
	// digits is the number of hexadecimal digits that it has, 0 if it is another text.
	digits int
}

// listField is a list of texts that end in NULs. One matching text is enough. A kernel thread has
// no such list.
type listField struct {
	fields engine.Fields
	get    func(p *engine.Process) []byte
	prefix string // of the texts that are looked at, which is left out
}

// setField has some of a few values. One matching value is enough.
type setField struct {
	fields engine.Fields
	names  []string // of the bits
	get    func(p *engine.Process) uint
}

func (f *numberField) needs() engine.Fields { return f.fields }
func (f *textField) needs() engine.Fields   { return f.fields }
func (f *listField) needs() engine.Fields   { return f.fields }
func (f *setField) needs() engine.Fields    { return f.fields }

const (
	ends  = engine.EventExit | engine.EventGone
	fails = engine.EventExecFailed
)

// fields are the fields of terms, without the variables of the environment: the rows of package
// schema except times, masks and marks, and fields derived from these rows.
var fields = func() map[string]field {
	all := map[string]field{
		"exe_flags": &setField{engine.FieldExeFile.Set(), []string{"set_uid", "set_gid", "other_writable", "removed"}, executableFlags},
		"exit_code": &numberField{fields: engine.FieldExit.Set(), of: ends, most: 255, get: func(_ *Matcher, ev *engine.Event) (uint64, uint64, bool) {
			code := uint64(ev.Process.Task.Exit.Code())
			return code, code, ev.Process.Task.Exit.Signal() == 0
		}},
		"duration": &numberField{fields: engine.FieldExit.Set(), of: ends, read: duration, want: aTime, get: (*Matcher).duration},
		"cpu_time": &numberField{fields: engine.FieldCPUTime.Set(), of: ends, read: duration, want: aTime, get: func(_ *Matcher, ev *engine.Event) (uint64, uint64, bool) {
			return exactly(ev.Process.Usage.UserTime + ev.Process.Usage.SystemTime)
		}},
		"exec_failed_errno": &numberField{of: fails, least: 1, most: 4095, read: errorNumber, get: func(_ *Matcher, ev *engine.Event) (uint64, uint64, bool) {
			if ev.Failed.Errno == 0 {
				return 0, math.MaxUint64, true
			}
			return exactly(uint64(ev.Failed.Errno))
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
	for _, name := range []string{"exe", "cwd", "cgroup"} {
		all[name].(*textField).rooted = true
	}
	all["comm"].(*textField).most = maxComm
	all["entry_leader_type"].(*textField).among = entryTypes()
	all["container_runtime"].(*textField).among = append([]string{""}, container.Runtimes...)
	return all
}()

// executable is the field in which a value without a slash is one of the last name. A cgroup above
// the root of a namespace has .. in its path.
var executable, cgroup = fields["exe"].(*textField), fields["cgroup"].(*textField)

// fieldOf returns the field of a row, nil if there is none.
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
		return &setField{r.Fields, names, func(p *engine.Process) uint { return uint(r.Number(p)) }}
	}
	return nil
}

// numberOf returns the field of a number.
func numberOf(r *engine.Row) *numberField {
	f := &numberField{fields: r.Fields, most: math.MaxUint32}
	f.get = func(_ *Matcher, ev *engine.Event) (uint64, uint64, bool) { return exactly(r.Number(ev.Process)) }
	switch {
	case r.Shape == schema.Device:
		f.most, f.want, f.read = math.MaxUint64, "a device such as 8:1", device
	case r.Shape == schema.Signal:
		f.most, f.read = 64, signalNumber
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

// hostID returns the id of a user or group of this host, as a file in /etc has it.
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

// maxPID is the highest pid: PID_MAX_LIMIT - 1 of linux/threads.h.
const maxPID = 1<<22 - 1

// environment begins the name of a variable of the environment.
const environment = "environ."

func exactly(n uint64) (least, most uint64, ok bool) { return n, n, true }

func device(text string) (n uint64, ok bool) {
	major, minor, _ := strings.Cut(text, ":")
	a, err := strconv.ParseUint(major, 10, 12) // bits as of dev_t in the kernel
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
