package monitor

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/engine/schema"
	"github.com/quark-linux/quark/fidelity/truth"
)

// noField marks members that belong to the event.
const noField = engine.Field(engine.NumFields)

// ownFields maps the members that are not rows of package schema to their fields.
var ownFields = map[string]engine.Field{
	"pid": noField, "thread": noField, "tracer": noField, "id_change": noField, "errno": noField, "path": noField, "path_truncated": noField,
	"birth_parent_pid": noField, "birth_parent_start": noField, "cached": noField, "truncated": noField, "lost": noField, "lost_from": noField, "lost_to": noField,

	"start": engine.FieldStart, "start_unit": engine.FieldStart, "args": engine.FieldArgs, "command_line": engine.FieldArgs,
	"status": engine.FieldExit, "code": engine.FieldExit, "signal": engine.FieldExit, "core": engine.FieldExit, "exit_time": engine.FieldExit,
}

// memberFields maps all members that a Format can name to their fields.
var memberFields = func() map[string]engine.Field {
	all := maps.Clone(ownFields)
	for _, m := range processMembers {
		all[m.name] = m.field
	}
	return all
}()

// member is a row of package schema with a plain number or text.
type member struct {
	name  string
	field engine.Field
	index []int // of the Go member in engine.Process
}

// processMembers are the rows that setProcess sets.
var processMembers = func() (list []member) {
	for _, r := range schema.Rows {
		path, ofProcess := strings.CutPrefix(r.Go, "p.")
		f := slices.IndexFunc(schema.Flags, func(f schema.Flag) bool { return f.Go == r.Flag })
		settable := r.Shape == schema.Uint || r.Shape == schema.String || r.Shape == schema.Path
		// Units belong to times and to resource usage. Expressions have parentheses.
		if f < 0 || schema.Flags[f].Traits&schema.Derived != 0 || !ofProcess || !settable || r.Unit != schema.None || strings.Contains(path, "(") {
			continue
		}
		m, in := member{name: r.Name, field: engine.Field(f)}, reflect.TypeFor[engine.Process]()
		for name := range strings.SplitSeq(path, ".") {
			goMember, _ := in.FieldByName(name)
			m.index, in = append(m.index, goMember.Index...), goMember.Type
		}
		list = append(list, m)
	}
	return list
}()

// jsonDecoder decodes lines of JSON by a Format.
type jsonDecoder struct {
	*Format
	boot uint64 // CLOCK_BOOTTIME minus CLOCK_MONOTONIC
	wall int64  // CLOCK_REALTIME minus CLOCK_MONOTONIC
}

func newJSONDecoder(f *Format) *jsonDecoder {
	return &jsonDecoder{f, truth.BootOffset(), truth.WallOffset()}
}

// line is a decoded line.
type line struct {
	f    *Format
	all  any
	star string // replaces "*"
	err  error  // the first invalid member
}

func (d *jsonDecoder) Decode(text []byte, at uint64, to *Output) (err error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil
	}
	l := &line{f: d.Format}
	in := json.NewDecoder(bytes.NewReader(text))
	in.UseNumber()
	if err := in.Decode(&l.all); err != nil {
		return fmt.Errorf("no JSON: %w", err)
	}
	for path, want := range d.Only {
		if got, ok := l.at(path); !ok || fmt.Sprint(got) != want {
			return nil
		}
	}
	kinds := l.kinds()
	if len(kinds) == 0 {
		return nil
	}
	if t := d.Time; t != nil {
		v, ok := l.at(t.Member)
		if at, err = d.time(v, ok); err != nil {
			return err
		}
	}
	if kinds[0] == engine.KindGap {
		return d.addGap(l, at, to)
	}
	pid, ok := l.number("pid")
	if !ok || pid == 0 || pid > 1<<31 {
		return fmt.Errorf("no pid")
	}
	ev, p := to.add(kinds[0], uint32(pid), at)
	for _, k := range kinds[1:] {
		ev.Events |= k.Events()
	}
	if tid, ok := l.number("thread"); ok {
		ev.Thread, ev.TID = true, uint32(tid)
	}
	d.setEvent(l, ev)
	l.setProcess(p)
	d.setExit(l, ev)
	if start, ok := l.number("start"); ok {
		p.Known, p.Start, p.StartUnit = p.Known.With(engine.FieldStart), start, 1
		if unit, ok := l.number("start_unit"); ok {
			p.StartUnit = unit
		}
	}
	if ppid, ok := l.number("birth_parent_pid"); ok {
		p.Birth.Known, p.Birth.Parent.PID = engine.FieldPPID.Set(), uint32(ppid)
		if start, ok := l.number("birth_parent_start"); ok {
			p.Birth.Known, p.Birth.Parent.Start = p.Birth.Known.With(engine.FieldStart), start
		}
	}
	p.Cached, p.Truncated = l.fields("cached")&p.Known, l.fields("truncated")&p.Known
	if p.Truncated.Has(engine.FieldArgs) {
		p.Image.Args = bytes.TrimSuffix(p.Image.Args, []byte{0})
	}
	if l.err != nil {
		to.Events = to.Events[:len(to.Events)-1]
	}
	return l.err
}

// kinds returns the kinds of the event.
func (l *line) kinds() (list []engine.Kind) {
	add := func(text string) {
		if kind := l.f.Kinds[text]; kind != "" {
			list = append(list, kindNames[kind])
			l.star = text
		}
	}
	if l.f.Kind == "" {
		if members, ok := l.all.(map[string]any); ok {
			for name := range l.f.Kinds {
				if _, ok := members[name]; ok {
					add(name)
				}
			}
		}
		return list
	}
	switch v, _ := l.at(l.f.Kind); v := v.(type) {
	case []any:
		for _, x := range v {
			add(fmt.Sprint(x))
		}
	case nil:
	default:
		add(fmt.Sprint(v))
	}
	return list
}

// at returns the value of a path.
func (l *line) at(path string) (v any, ok bool) {
	if path == "" {
		return nil, false
	}
	v = l.all
	for name := range strings.SplitSeq(path, "/") {
		if name == "*" {
			name = l.star
		}
		m, isObject := v.(map[string]any)
		if !isObject {
			return nil, false
		}
		if v, ok = m[name]; !ok || v == nil {
			return nil, false
		}
	}
	return v, true
}

// number returns a member that is a number or a numeric text.
func (l *line) number(name string) (uint64, bool) {
	v, ok := l.at(l.f.Members[name])
	if !ok {
		n, ok := l.f.Absent[name]
		return n, ok
	}
	text := fmt.Sprint(v)
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		// A wait status and an unset id may be negative, and an error may have its name.
		signed, err := strconv.ParseInt(text, 10, 32)
		if err != nil && name == "errno" {
			if n := errnoOf(text); n != 0 {
				signed, err = int64(n), nil
			}
		}
		if err != nil {
			l.wrong(name, v)
			return 0, false
		}
		n = uint64(uint32(signed))
	}
	return n, true
}

func (l *line) wrong(name string, v any) {
	if l.err == nil {
		l.err = fmt.Errorf("invalid %s %.40q", name, fmt.Sprint(v))
	}
}

// text returns a member that is text.
func (l *line) text(name string) (string, bool) {
	path := l.f.Members[name]
	if b, ok := l.at(path + l.f.Base64); ok && l.f.Base64 != "" && path != "" {
		return l.decoded(name, b), true
	}
	v, ok := l.at(path)
	if !ok {
		return "", false
	}
	s, isText := v.(string)
	if !isText {
		l.wrong(name, v)
	}
	return s, isText
}

func (l *line) decoded(name string, v any) string {
	s, _ := v.(string)
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		l.wrong(name, v)
	}
	return string(b)
}

// list returns a member that is a list of texts, with a NUL after each text.
func (l *line) list(name string) (all []byte, ok bool) {
	path := l.f.Members[name]
	encoded := false
	v, ok := l.at(path)
	if b, some := l.at(path + l.f.Base64); some && l.f.Base64 != "" {
		v, encoded = b, true
	}
	if !ok {
		return nil, false
	}
	items, isList := v.([]any)
	if !isList {
		l.wrong(name, v)
		return nil, false
	}
	all = []byte{}
	for _, x := range items {
		s, isText := x.(string)
		if !isText {
			l.wrong(name, v)
		}
		if encoded {
			s = l.decoded(name, x)
		}
		all = append(append(all, s...), 0)
	}
	return all, true
}

// fields returns a member that is a list of fields by quark's names.
func (l *line) fields(name string) (set engine.Fields) {
	v, _ := l.at(l.f.Members[name])
	words, _ := v.([]any)
	for _, word := range words {
		for f := range engine.Field(engine.NumFields) {
			if f.String() == word {
				set = set.With(f)
			}
		}
	}
	return set
}

// setEvent sets the values of the event itself.
func (d *jsonDecoder) setEvent(l *line, ev *engine.Event) {
	if n, ok := l.number("tracer"); ok {
		ev.Tracer.PID = uint32(n)
	}
	if v, ok := l.at(d.Members["id_change"]); ok {
		words, isList := v.([]any)
		if !isList {
			for word := range strings.SplitSeq(fmt.Sprint(v), "+") {
				words = append(words, word)
			}
		}
		for _, w := range words {
			ev.IDChange |= idNames[d.IDs[fmt.Sprint(w)]]
		}
	}
	if n, ok := l.number("errno"); ok {
		ev.Failed.Errno = uint16(n)
		if n > 1<<16 { // the negative result of the call
			ev.Failed.Errno = uint16(-int32(uint32(n)))
		}
	}
	ev.Failed.Path, ev.Failed.PathKnown = l.text("path")
	cut, _ := l.at(d.Members["path_truncated"])
	ev.Failed.PathTruncated = cut == true
}

// setProcess sets the numbers and texts of a process. A field of two members is known if both are
// present. If a format names only the real or only the effective id, it is both.
func (l *line) setProcess(p *engine.Process) {
	var lacking engine.Fields
	members := reflect.ValueOf(p).Elem()
	for _, m := range processMembers {
		name := m.name
		if other := otherID[name]; other != "" && l.f.Members[name] == "" {
			name = other
		}
		var text string
		var n uint64
		var ok bool
		if l.f.Members[name] == "" {
			// The format lacks the member.
		} else if v := members.FieldByIndex(m.index); v.Kind() == reflect.String {
			text, ok = l.text(name)
			v.SetString(text)
		} else {
			n, ok = l.number(name)
			v.SetUint(uint64(uint32(n)))
		}
		if p.Known = p.Known.With(m.field); !ok {
			lacking = lacking.With(m.field)
		}
	}
	p.Known &^= lacking
	if l.f.Slash && len(p.Cwd) > 1 {
		p.Cwd = strings.TrimSuffix(p.Cwd, "/")
	}
	var ok bool
	if p.Image.Args, ok = l.list("args"); !ok {
		var text string
		text, ok = l.text("command_line")
		p.Image.Args = []byte(strings.TrimRight(text, " "))
	}
	if ok {
		p.Known = p.Known.With(engine.FieldArgs)
	}
}

// otherID maps a real id to the effective id, and an effective id to the real id.
var otherID = map[string]string{"uid": "euid", "euid": "uid", "gid": "egid", "egid": "gid"}

// setExit sets the exit status.
func (d *jsonDecoder) setExit(l *line, ev *engine.Event) {
	if !ev.Events.Has(engine.EventExit) {
		return
	}
	ev.Process.Exited = !ev.Thread
	status, ok := l.number("status")
	if !ok {
		code, some := l.number("code")
		signal, killed := l.signal()
		status, ok = code&0xff<<8, some || killed
		if signal != 0 {
			status = signal
		}
		if v, _ := l.at(d.Members["core"]); v == true {
			status |= 0x80
		}
	}
	if !ok {
		return
	}
	over := ev.Process.Exited
	setExit(ev, int32(uint32(status)))
	ev.Process.Exited = over
	if v, ok := l.at(d.Members["exit_time"]); ok && d.Time != nil {
		if at, err := d.time(v, true); err == nil {
			ev.Process.Task.Exit.Time = at
		}
	}
}

// signal returns a signal by number or name.
func (l *line) signal() (n uint64, ok bool) {
	if v, _ := l.at(l.f.Members["signal"]); v != nil {
		if text, isText := v.(string); isText {
			if text == "" {
				return 0, false
			}
			if s := unix.SignalNum(text); s != 0 {
				return uint64(s), true
			}
		}
	}
	return l.number("signal")
}

// addGap adds a gap and its lost events.
func (d *jsonDecoder) addGap(l *line, at uint64, to *Output) error {
	g := engine.Gap{CPU: engine.AllCPUs, From: at, To: at}
	n, ok := l.number("lost")
	if g.Count = n; ok && n > 0 {
		to.Lost += n
	} else {
		to.Uncounted++
	}
	for name, to := range map[string]*uint64{"lost_from": &g.From, "lost_to": &g.To} {
		if v, ok := l.at(d.Members[name]); ok && d.Time != nil {
			t, err := d.time(v, true)
			if err != nil {
				return err
			}
			*to = t
		}
	}
	ev, p := to.add(engine.KindGap, 0, at)
	ev.Gap, p.PID = g, 0
	return l.err
}

// time returns a time in nanoseconds of CLOCK_MONOTONIC.
func (d *jsonDecoder) time(v any, ok bool) (uint64, error) {
	if !ok {
		return 0, fmt.Errorf("no time")
	}
	text := fmt.Sprint(v)
	var ns int64
	var err error
	if d.Time.Unit == "rfc3339" {
		var t time.Time
		t, err = time.Parse(time.RFC3339Nano, text)
		ns = t.UnixNano()
	} else {
		ns, err = decimal(text, d.Time.Unit)
	}
	switch d.Time.Clock {
	case "realtime":
		ns -= d.wall
	case "boottime":
		ns -= int64(d.boot)
	}
	if err != nil || ns < 0 {
		return 0, fmt.Errorf("invalid time %.40q", text)
	}
	return uint64(ns), nil
}

// decimal converts a decimal number of a unit to nanoseconds, without rounding.
func decimal(text, unit string) (ns int64, err error) {
	digits := len(strconv.FormatUint(units[unit], 10)) - 1
	whole, fraction, _ := strings.Cut(text, ".")
	fraction = (fraction + "000000000")[:digits]
	return strconv.ParseInt(whole+fraction, 10, 64)
}
