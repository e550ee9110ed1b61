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
	o.uintIf(e.CPU != AllCPUs, "cpu", e.CPU)
	o.text("backend", backend)
	o.begin("events", '[')
	for i := range eventNames {
		if e.Events.Has(eventNames[i].bit) {
			o.next()
			o.b = append(append(append(o.b, '"'), eventNames[i].name...), '"')
		}
	}
	o.end(']')
	if e.Events.Has(EventIDChange) {
		o.text("id_change", e.IDChange.String())
	}
	o.uintIf(e.Events.Has(EventPtrace), "tracer_pid", e.Tracer.PID)
	o.uintIf(e.Thread, "thread", e.TID)
	if e.Events.Has(EventExecFailed) {
		o.failed(&e.Failed)
	}
	if len(e.Parts) > 1 {
		o.parts(e.Parts)
	}
	if e.Events.Has(EventGap) {
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
	o.uintIf(known(FieldPIDNS), "ns_pid", p.NSPID)
	o.uintIf(known(FieldPPID), "ppid", p.PPID)
	if known(FieldStart) {
		o.uint("start_boottime_ns", p.Start)
		o.uint("start_precision_ns", max(p.StartUnit, 1))
		o.time("start", clock.Started(p))
		o.entity("entity_id", true, Identity{p.PID, p.Start}, &clock.Host)
	}
	o.textIf(known(FieldComm), "comm", p.Comm)
	o.textIf(known(FieldExe), "exe", p.Exe)
	o.textIf(known(FieldExecPath), "exec_path", p.ExecPath)
	if known(FieldExeFile) {
		o.executable(&p.ExeFile)
	}
	if known(FieldArgs) {
		o.list("args", p.Args)
	}
	if known(FieldEnviron) {
		o.list("environ", p.Environ)
	}
	o.textIf(known(FieldCwd), "cwd", p.Cwd)
	o.ids(&p.Cred, p.Known)
	if known(FieldLogin) {
		o.begin("login", '{')
		o.uint("uid", uint64(p.Login.UID))
		o.uint("session", uint64(p.Login.Session))
		o.end('}')
	}
	o.uintIf(known(FieldPGID), "pgid", p.PGID)
	o.uintIf(known(FieldSID), "sid", p.SID)
	if known(FieldCaps) {
		o.begin("caps", '{')
		o.hex("inheritable", p.Caps.Inheritable)
		o.hex("permitted", p.Caps.Permitted)
		o.hex("effective", p.Caps.Effective)
		o.hex("bounding", p.Caps.Bounding)
		o.hex("ambient", p.Caps.Ambient)
		o.end('}')
	}
	o.namespaces(p)
	if known(FieldTTY) {
		o.begin("tty", '{')
		o.uint("major", uint64(p.TTY.Major))
		o.uint("minor", uint64(p.TTY.Minor))
		o.end('}')
	}
	o.textIf(known(FieldCgroup), "cgroup", p.Cgroup)
	if c, _ := p.Container(); c.ID != "" {
		o.begin("container", '{')
		o.text("id", c.ID)
		o.textIf(c.Runtime != "", "runtime", c.Runtime)
		o.textIf(c.Pod != "", "pod", c.Pod)
		o.textIf(c.Unit != "", "unit", c.Unit)
		o.end('}')
	}
	o.uintIf(known(FieldParentSignal), "parent_signal", p.ParentSignal)
	if p.Exited || p.Known.Has(FieldExit) { // the latter alone: a thread
		o.exit(p, clock)
	}
	if p.Usage != nil {
		o.usage(p)
	}
	if p.Birth.Known != 0 {
		o.birth(p, &clock.Host)
	}
	if known(FieldEntryLeader) {
		o.begin("entry_leader", '{')
		o.text("type", p.EntryType.String())
		o.identity(p.EntryLeader)
		o.end('}')
	}
	if known(FieldPrivileges) {
		o.text("privileges", p.Privileges.String())
	}
	o.trueIf(p.Inferred, "inferred")
	o.fieldsIf(p.Cached != 0, "cached", p.Cached)
	o.fieldsIf(p.Truncated != 0, "truncated", p.Truncated)
	return append(o.b, '}')
}

// object appends the members of a JSON object, and of those in it.
type object struct {
	b    []byte
	some bool // the innermost has members
}

func (o *object) open(bracket byte) { o.b, o.some = append(o.b, bracket), false }
func (o *object) end(bracket byte)  { o.b, o.some = append(o.b, bracket), true }

// next begins a member or an item.
func (o *object) next() {
	if o.some {
		o.b = append(o.b, ',')
	}
	o.some = true
}

func (o *object) key(name string) {
	o.next()
	o.b = append(append(append(o.b, '"'), name...), '"', ':')
}

// begin begins a member that is an object or an array.
func (o *object) begin(name string, bracket byte) {
	o.key(name)
	o.open(bracket)
}

func (o *object) trueIf(v bool, name string) {
	if v {
		o.key(name)
		o.b = append(o.b, "true"...)
	}
}

func (o *object) uint(name string, v uint64) {
	o.key(name)
	o.b = strconv.AppendUint(o.b, v, 10)
}

func (o *object) uintIf(known bool, name string, v uint32) {
	if known {
		o.uint(name, uint64(v))
	}
}

func (o *object) textIf(known bool, name, v string) {
	if known {
		o.text(name, v)
	}
}

func (o *object) fieldsIf(some bool, name string, v Fields) {
	if some {
		o.key(name)
		o.b = append(v.append(append(o.b, '"')), '"')
	}
}

// inBase appends v as a string, with a prefix that tells the base.
func (o *object) inBase(name, prefix string, v uint64, base int) {
	o.key(name)
	o.b = append(strconv.AppendUint(append(append(o.b, '"'), prefix...), v, base), '"')
}

func (o *object) hex(name string, v uint64) { o.inBase(name, "0x", v, 16) }

// time appends t in UTC with all nine digits of its nanoseconds. RFC3339 without them is the one
// layout of this shape that package time has a short way for.
func (o *object) time(name string, t time.Time) {
	o.key(name)
	b := t.UTC().AppendFormat(append(o.b, '"'), time.RFC3339)
	b[len(b)-1] = '.' // was the Z
	nsec := uint32(t.Nanosecond())
	for unit := uint32(1e8); unit > 0; unit /= 10 {
		b = append(b, '0'+byte(nsec/unit%10))
	}
	o.b = append(b, 'Z', '"')
}

func (o *object) text(name, v string) {
	o.key(name)
	o.b = appendJSONString(o.b, v)
	if !utf8.ValidString(v) {
		o.key(name + "_b64")
		o.b = appendBase64(o.b, []byte(v))
	}
}

// list appends an array of texts that NULs end, and a twin if not all of them are UTF-8.
func (o *object) list(name string, texts []byte) {
	o.items(name, texts, func(b, text []byte) []byte { return appendJSONString(b, string(text)) })
	if !utf8.Valid(texts) {
		o.items(name+"_b64", texts, appendBase64)
	}
}

func (o *object) executable(x *ExeFile) {
	o.begin("exe_file", '{')
	o.uint("major", uint64(x.Major()))
	o.uint("minor", uint64(x.Minor()))
	o.inBase("inode", "", x.Inode, 10) // which may be beyond 2^53
	o.time("ctime", time.Unix(0, x.Ctime))
	o.inBase("mode", "0", uint64(x.Mode), 8)
	o.uint("uid", uint64(x.UID))
	o.uint("gid", uint64(x.GID))
	o.trueIf(x.Removed, "removed")
	o.end('}')
}

// items appends an array of texts that NULs end.
func (o *object) items(name string, texts []byte, item func(b, arg []byte) []byte) {
	o.begin(name, '[')
	for arg := range parts(texts) {
		o.next()
		o.b = item(o.b, arg)
	}
	o.end(']')
}

func (o *object) namespaces(p *Process) {
	if p.Known&FieldsNS.With(FieldPIDNS) == 0 {
		return
	}
	o.begin("namespaces", '{')
	o.uintIf(p.Known.Has(FieldUTSNS), "uts", p.NS.UTS)
	o.uintIf(p.Known.Has(FieldIPCNS), "ipc", p.NS.IPC)
	o.uintIf(p.Known.Has(FieldMntNS), "mnt", p.NS.Mnt)
	o.uintIf(p.Known.Has(FieldNetNS), "net", p.NS.Net)
	o.uintIf(p.Known.Has(FieldPIDNS), "pid", p.NS.PID)
	o.uintIf(p.Known.Has(FieldUserNS), "user", p.NS.User)
	o.uintIf(p.Known.Has(FieldCgroupNS), "cgroup", p.NS.Cgroup)
	o.uintIf(p.Known.Has(FieldTimeNS), "time", p.NS.Time)
	o.end('}')
}

// parts appends the parts of a joined event, and for an EXEC the ids it began with.
func (o *object) parts(parts []Part) {
	o.begin("parts", '[')
	for i := range parts {
		p := &parts[i]
		o.next()
		o.open('{')
		o.text("event", p.Kind.String())
		o.uint("monotonic_ns", p.Time)
		o.uint("cpu", uint64(p.CPU))
		if p.Kind == KindExec {
			o.ids(&p.Cred, p.Known)
		}
		o.end('}')
	}
	o.end(']')
}

func (o *object) ids(c *Credentials, known Fields) {
	o.uintIf(known.Has(FieldUIDs), "uid", c.UID)
	o.uintIf(known.Has(FieldUIDs), "euid", c.EUID)
	o.uintIf(known.Has(FieldSUID), "suid", c.SUID)
	o.uintIf(known.Has(FieldGIDs), "gid", c.GID)
	o.uintIf(known.Has(FieldGIDs), "egid", c.EGID)
	o.uintIf(known.Has(FieldSGID), "sgid", c.SGID)
}

func (o *object) birth(p *Process, h *Host) {
	o.begin("birth", '{')
	b := &p.Birth
	o.uintIf(b.Known.Has(FieldPPID), "ppid", b.Parent.PID)
	o.uintIf(p.Known.Has(FieldBirthParentTID), "parent_tid", p.ParentTID)
	if b.Known.Has(FieldStart) {
		o.uint("parent_start_boottime_ns", b.Parent.Start)
	}
	o.entity("parent_entity_id", b.Known.Has(FieldPPID) && b.Known.Has(FieldStart), b.Parent, h)
	o.end('}')
}

func (o *object) identity(id Identity) {
	o.uint("pid", uint64(id.PID))
	o.uint("start_boottime_ns", id.Start)
}

func (o *object) gap(g *Gap) {
	o.begin("gap", '{')
	o.text("cause", g.Cause.String())
	o.uintIf(g.CPU != AllCPUs, "cpu", g.CPU)
	o.uint("from_monotonic_ns", g.From)
	o.uint("to_monotonic_ns", g.To)
	o.uint("lost", g.Count)
	o.end('}')
}

func (o *object) exit(p *Process, clock *Clock) {
	o.begin("exit", '{')
	if s := &p.Task.Exit; p.Known.Has(FieldExit) {
		o.uint("code", uint64(s.Code()))
		o.uint("signal", uint64(s.Signal()))
		o.key("core_dumped")
		o.b = strconv.AppendBool(o.b, s.CoreDumped())
		o.key("wait_status")
		o.b = strconv.AppendInt(o.b, int64(s.WaitStatus), 10)
		o.time("time", clock.At(s.Time))
		o.uint("monotonic_ns", s.Time)
	}
	o.end('}')
}

func (o *object) usage(p *Process) {
	u := p.Usage
	o.begin("usage", '{')
	if p.Known.Has(FieldCPUTime) {
		o.uint("user_ns", u.UserTime)
		o.uint("system_ns", u.SystemTime)
	}
	if p.Known.Has(FieldPeakRSS) {
		o.uint("peak_rss_bytes", u.PeakRSS)
	}
	if p.Known.Has(FieldIO) {
		o.uint("rchar", u.RChar)
		o.uint("wchar", u.WChar)
		o.uint("read_bytes", u.ReadBytes)
		o.uint("write_bytes", u.WriteBytes)
	}
	o.end('}')
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
