package engine

import (
	"encoding/base64"
	"strconv"
	"time"
	"unicode/utf8"
)

// AppendJSON appends the event to b as one JSON object without a line end.
// Unknown fields are absent; a field that was cut is named in "truncated". Text
// that is not UTF-8 has its wrong bytes replaced and a twin whose name ends in
// "_b64" with the true bytes in base64. Capability sets are hexadecimal strings,
// since JSON numbers are not safe beyond 2^53.
func (e *Event) AppendJSON(b []byte, clock *Clock, backend string) []byte {
	o := object{b: append(b, '{')}
	o.time("time", e.Wall)
	o.uint("monotonic_ns", e.Time)
	o.text("backend", backend)
	o.key("events")
	o.b = append(o.b, '[')
	for i, n := range e.Events.Names(make([]string, 0, len(eventNames))) {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.b = appendJSONString(o.b, n)
	}
	o.b = append(o.b, ']')
	if e.Events&EventIDChange != 0 {
		o.text("id_change", e.IDChange.String())
	}
	if e.Events&EventPtrace != 0 {
		o.uint("tracer_pid", uint64(e.Tracer.PID))
	}
	if e.Thread {
		o.uint("thread", uint64(e.TID))
	}
	if len(e.Parts) > 1 {
		o.parts(e.Parts)
	}
	if e.Events&EventGap != 0 {
		o.gap(&e.Gap)
	} else if e.Process != nil {
		o.key("process")
		o.b = e.Process.AppendJSON(o.b, clock)
	}
	return append(o.b, '}')
}

// AppendJSON appends the process to b as one JSON object; see [Event.AppendJSON].
func (p *Process) AppendJSON(b []byte, clock *Clock) []byte {
	o := object{b: append(b, '{')}
	known := p.Known.Has
	o.uint("pid", uint64(p.PID))
	if known(FieldPPID) {
		o.uint("ppid", uint64(p.PPID))
	}
	if known(FieldStart) {
		o.uint("start_boottime_ns", p.Start)
		o.uint("start_precision_ns", max(p.StartUnit, 1))
		o.time("start", clock.BootAt(p.Start))
	}
	if known(FieldComm) {
		o.text("comm", p.Comm)
	}
	if known(FieldFilename) {
		o.text("filename", p.Filename)
	}
	if known(FieldCmdline) {
		o.args(p)
	}
	if known(FieldCwd) {
		o.text("cwd", p.Cwd)
	}
	o.ids(&p.Cred, p.Known)
	if known(FieldPGID) {
		o.uint("pgid", uint64(p.PGID))
	}
	if known(FieldSID) {
		o.uint("sid", uint64(p.SID))
	}
	if known(FieldCaps) {
		o.key("caps")
		c := object{b: append(o.b, '{')}
		c.hex("inheritable", p.Caps.Inheritable)
		c.hex("permitted", p.Caps.Permitted)
		c.hex("effective", p.Caps.Effective)
		c.hex("bounding", p.Caps.Bounding)
		c.hex("ambient", p.Caps.Ambient)
		o.b = append(c.b, '}')
	}
	o.namespaces(p)
	if known(FieldTTY) {
		o.key("tty")
		t := object{b: append(o.b, '{')}
		t.uint("major", uint64(p.TTY.Major))
		t.uint("minor", uint64(p.TTY.Minor))
		o.b = append(t.b, '}')
	}
	if known(FieldCgroup) {
		o.text("cgroup", p.Cgroup)
	}
	if p.Exited || p.Known.Has(FieldExit) { // the latter alone: a thread
		o.exit(p, clock)
	}
	if p.Birth.Known != 0 {
		o.birth(&p.Birth)
	}
	if p.Inferred {
		o.key("inferred")
		o.b = append(o.b, "true"...)
	}
	if p.Carried != 0 {
		o.text("carried", p.Carried.String())
	}
	if p.Truncated != 0 {
		o.text("truncated", p.Truncated.String())
	}
	return append(o.b, '}')
}

// object appends the members of a JSON object.
type object struct {
	b    []byte
	some bool
}

func (o *object) key(name string) {
	if o.some {
		o.b = append(o.b, ',')
	}
	o.some = true
	o.b = append(append(append(o.b, '"'), name...), '"', ':')
}

func (o *object) uint(name string, v uint64) {
	o.key(name)
	o.b = strconv.AppendUint(o.b, v, 10)
}

func (o *object) hex(name string, v uint64) {
	o.key(name)
	o.b = append(strconv.AppendUint(append(o.b, `"0x`...), v, 16), '"')
}

func (o *object) time(name string, t time.Time) {
	o.key(name)
	o.b = append(t.UTC().AppendFormat(append(o.b, '"'), "2006-01-02T15:04:05.000000000Z07:00"), '"')
}

func (o *object) text(name, v string) {
	o.key(name)
	o.b = appendJSONString(o.b, v)
	if !utf8.ValidString(v) {
		o.key(name + "_b64")
		o.b = appendBase64(o.b, []byte(v))
	}
}

func (o *object) args(p *Process) {
	o.key("cmdline")
	o.b = append(o.b, '[')
	sep := ""
	for arg := range p.Args() {
		o.b = appendJSONString(append(o.b, sep...), string(arg))
		sep = ","
	}
	o.b = append(o.b, ']')
	if utf8.Valid(p.Cmdline) {
		return
	}
	o.key("cmdline_b64")
	o.b = append(o.b, '[')
	sep = ""
	for arg := range p.Args() {
		o.b = appendBase64(append(o.b, sep...), arg)
		sep = ","
	}
	o.b = append(o.b, ']')
}

func (o *object) namespaces(p *Process) {
	if p.Known&FieldsNS == 0 {
		return
	}
	o.key("namespaces")
	n := object{b: append(o.b, '{')}
	for _, ns := range []struct {
		name  string
		field Field
		inode uint32
	}{
		{"uts", FieldUTSNS, p.NS.UTS}, {"ipc", FieldIPCNS, p.NS.IPC}, {"mnt", FieldMntNS, p.NS.Mnt}, {"net", FieldNetNS, p.NS.Net},
	} {
		if p.Known.Has(ns.field) {
			n.uint(ns.name, uint64(ns.inode))
		}
	}
	o.b = append(n.b, '}')
}

// parts appends the parts of a joined event, and for an EXEC the ids it began with.
func (o *object) parts(parts []Part) {
	o.key("parts")
	o.b = append(o.b, '[')
	for i := range parts {
		p := &parts[i]
		if i > 0 {
			o.b = append(o.b, ',')
		}
		x := object{b: append(o.b, '{')}
		x.text("event", p.Kind.String())
		x.uint("monotonic_ns", p.Time)
		if p.Kind == KindExec {
			x.ids(&p.Cred, p.Known)
		}
		o.b = append(x.b, '}')
	}
	o.b = append(o.b, ']')
}

func (o *object) ids(c *Credentials, known Fields) {
	if known.Has(FieldUIDs) {
		o.uint("uid", uint64(c.UID))
		o.uint("euid", uint64(c.EUID))
	}
	if known.Has(FieldSUID) {
		o.uint("suid", uint64(c.SUID))
	}
	if known.Has(FieldGIDs) {
		o.uint("gid", uint64(c.GID))
		o.uint("egid", uint64(c.EGID))
	}
	if known.Has(FieldSGID) {
		o.uint("sgid", uint64(c.SGID))
	}
}

func (o *object) birth(b *Birth) {
	o.key("birth")
	x := object{b: append(o.b, '{')}
	if b.Known.Has(FieldPPID) {
		x.uint("ppid", uint64(b.Parent.PID))
	}
	if b.Known.Has(FieldStart) {
		x.uint("parent_start_boottime_ns", b.Parent.Start)
	}
	o.b = append(x.b, '}')
}

func (o *object) gap(g *Gap) {
	o.key("gap")
	x := object{b: append(o.b, '{')}
	x.text("cause", g.Cause.String())
	if g.CPU != AllCPUs {
		x.uint("cpu", uint64(g.CPU))
	}
	x.uint("from_monotonic_ns", g.From)
	x.uint("to_monotonic_ns", g.To)
	x.uint("lost", g.Count)
	o.b = append(x.b, '}')
}

func (o *object) exit(p *Process, clock *Clock) {
	o.key("exit")
	x := object{b: append(o.b, '{')}
	if s := &p.Task.Exit; p.Known.Has(FieldExit) {
		x.uint("code", uint64(s.Code()))
		x.uint("signal", uint64(s.Signal()))
		x.key("core_dumped")
		x.b = strconv.AppendBool(x.b, s.CoreDumped())
		x.key("wait_status")
		x.b = strconv.AppendInt(x.b, int64(s.WaitStatus), 10)
		x.time("time", clock.At(s.Time))
		x.uint("monotonic_ns", s.Time)
	}
	o.b = append(x.b, '}')
}

func appendBase64(b, v []byte) []byte {
	return append(base64.StdEncoding.AppendEncode(append(b, '"'), v), '"')
}

const hexDigits = "0123456789abcdef"

// appendJSONString appends s as a JSON string, with U+FFFD for bytes that are
// not UTF-8.
func appendJSONString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\n':
			b = append(b, '\\', 'n')
		case c == '\t':
			b = append(b, '\\', 't')
		case c < 0x20 || c == 0x7f:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		case c < utf8.RuneSelf:
			b = append(b, c)
		default:
			r, size := utf8.DecodeRuneInString(s[i:])
			b = utf8.AppendRune(b, r) // RuneError for a wrong byte
			i += size
			continue
		}
		i++
	}
	return append(b, '"')
}
