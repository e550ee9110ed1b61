package filter

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/engine/schema"
)

// testExpr is an expression with a function that evaluates it independently of the compiler.
type testExpr struct {
	text string
	eval func(ev *engine.Event) truth
}

// events generates random events.
type events struct{ *rand.Rand }

func pick[T any](r events, from ...T) T { return from[r.IntN(len(from))] }

var (
	someTexts = []string{"", "a", "sh", "ssh", "sshd", "/", "/a", "/a/b", "/a/b/c", "a\xffb", "é", "/tmp/é", "x y"}
	someKinds = []engine.Kind{engine.KindFork, engine.KindExec, engine.KindExit, engine.KindIDChange, engine.KindSetProcTitle}

	someDevices = []uint32{0, 0x801, 0x10_3412} // as encoded by the kernel: 0:0, 8:1, 52:274
	someCgroups = []string{
		"/system.slice/docker-" + someID + ".scope", "/kubepods/besteffort/pod4c5e3e9a-1111-2222-3333-444455556666/" + someID, "/user.slice",
	}
)

const someID = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func (r events) number() uint32 { return pick[uint32](r, 0, 1, 2, 1000, maxPID) }

func (r events) event() *engine.Event {
	positive := func() uint32 { return max(r.number(), 1) }
	p := &engine.Process{PID: positive()}
	p.Known = engine.Fields(r.Uint64()|r.Uint64()) & (1<<engine.NumFields - 1)
	// An entry leader is never a cut text.
	p.Truncated = p.Known & engine.Fields(r.Uint64()&r.Uint64()) &^ engine.FieldEntryLeader.Set()
	p.Cached = p.Known & engine.Fields(r.Uint64())
	p.PPID, p.PGID, p.SID = r.number(), r.number(), r.number()
	p.Cred = engine.Credentials{UID: r.number(), EUID: r.number(), SUID: r.number(), GID: r.number(), EGID: r.number(), SGID: r.number()}
	p.Login = engine.Login{UID: r.number(), Session: r.number()}
	p.NS = engine.Namespaces{UTS: positive(), IPC: positive(), Mnt: positive(), Net: positive(), PID: positive(), User: positive(), Cgroup: positive(), Time: positive()}
	p.NSPID, p.TTY = positive(), engine.TTY{Major: pick[uint32](r, 0, 8), Minor: pick[uint32](r, 0, 1)}
	p.Comm, p.Image.Exe, p.Cwd, p.Cgroup = pick(r, someTexts...), pick(r, someTexts...), pick(r, someTexts...), pick(r, append(someCgroups, someTexts...)...)
	p.ExecPath, p.Privileges = pick(r, someTexts...), engine.Privileges(r.IntN(8))
	p.ExeFile = engine.ExeFile{UID: r.number(), GID: r.number(), Inode: uint64(r.number()), Device: pick(r, someDevices...), Mode: uint16(r.Uint32()), Removed: r.IntN(3) == 0}
	for i := range p.Stdio {
		p.Stdio[i] = engine.Stream{Inode: uint64(r.number()), Device: pick(r, someDevices...), Family: engine.Family(r.IntN(3)), Type: engine.StreamType(r.IntN(9))}
	}
	for range r.IntN(4) {
		p.Image.Args = append(append(p.Image.Args, pick(r, someTexts...)...), 0)
		p.Environ = append(append(append(p.Environ, pick(r, "A=", "AB=", "B=", "", "A")...), pick(r, someTexts...)...), 0)
	}
	p.Start, p.StartUnit = 1000+r.Uint64N(50), pick[uint64](r, 1, 10)
	p.Task.Exit = engine.Exit{WaitStatus: pick[int32](r, 0, 1<<8, 2<<8, 9, 11|0x80), Time: 900 + r.Uint64N(60)}
	if p.EntryType = engine.EntryType(r.IntN(7)); r.IntN(4) == 0 {
		p.EntryType = engine.EntryKThread
		p.Known = p.Known&^image | engine.FieldEntryLeader.Set()
		p.Truncated, p.Cached = p.Truncated&p.Known, p.Cached&p.Known
	}
	ev := &engine.Event{Process: p, Thread: r.IntN(8) == 0}
	for range r.IntN(3) {
		k := pick(r, someKinds...)
		ev.Events |= k.Events()
		ev.Parts = append(ev.Parts, engine.Part{Kind: k, Time: 900 + r.Uint64N(20)})
	}
	if r.IntN(10) == 0 {
		ev.Events = engine.EventGone
	}
	if isEnd(ev) {
		p.Usage = engine.Usage{UserTime: r.Uint64N(5), SystemTime: r.Uint64N(5), PeakRSS: r.Uint64N(4) << 20, RChar: r.Uint64N(3), WChar: r.Uint64N(3), ReadBytes: r.Uint64N(3), WriteBytes: r.Uint64N(3)}
	}
	if r.IntN(8) == 0 {
		ev.Events, ev.NSChange.Changed = engine.EventNSChange, engine.NSSet(1<<r.IntN(8)|1<<r.IntN(8))
	}
	if r.IntN(8) == 0 {
		ev.Events = engine.EventExecFailed
		ev.Failed = engine.FailedExec{Errno: uint16(r.IntN(3)), Path: pick(r, someTexts...), PathKnown: r.IntN(3) > 0, PathTruncated: r.IntN(3) == 0}
	}
	return ev
}

var testHost = engine.Host{BootID: "boot"}

const testBootOffset = 100 // CLOCK_BOOTTIME minus CLOCK_MONOTONIC of the events

// quoted writes a text in one of the possible notations.
func (r events) quoted(s string) string {
	word := s != "" && !isKeyword(s)
	for i := range len(s) {
		word = word && inWord(s[i])
	}
	switch {
	case word && r.IntN(2) == 0:
		return s
	case !strings.Contains(s, "'") && r.IntN(2) == 0:
		return "'" + s + "'"
	}
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || r.IntN(5) == 0 {
			fmt.Fprintf(&b, `\x%02X`, c)
		} else {
			b.WriteByte(c)
		}
	}
	return `"` + b.String() + `"`
}

// list writes one value, or several as a list.
func (r events) list(values []string) string {
	if len(values) == 1 && r.IntN(2) == 0 {
		return values[0]
	}
	return "(" + strings.Join(values, pick(r, ",", ", ", " ,\n ")) + ")"
}

// ifKnown returns a function that returns the result of match if f is known, else unknown.
func ifKnown(f engine.Fields, match func(ev *engine.Event) bool) func(ev *engine.Event) truth {
	return func(ev *engine.Event) truth {
		if ev.Process.Known&f != f {
			return unknown
		}
		return truthOf(match(ev))
	}
}

// The method ifKnown adds a case to the function ifKnown: kernel threads have no executable.
func (f *naiveNumber) ifKnown(match func(ev *engine.Event) bool) func(ev *engine.Event) truth {
	return func(ev *engine.Event) truth {
		if p := ev.Process; image.Has(f.f) && isKernelThread(p) && !p.Known.Has(f.f) {
			return no
		}
		return ifKnown(f.f.Set(), match)(ev)
	}
}

func isEnd(ev *engine.Event) bool { return ev.Events&(engine.EventExit|engine.EventGone) != 0 }

func ifEnd(eval func(ev *engine.Event) truth) func(ev *engine.Event) truth {
	return func(ev *engine.Event) truth {
		if !isEnd(ev) {
			return no
		}
		return eval(ev)
	}
}

type naiveNumber struct {
	name  string
	f     engine.Field
	least uint64 // bounds of numbers for comparisons
	most  uint64
	get   func(p *engine.Process) uint64
}

// naiveNumbers are plain numbers: no times, devices or signals.
var naiveNumbers = func() (all []naiveNumber) {
	rows := engine.Rows()
	for i := range rows {
		r := &rows[i]
		plain := r.Shape == schema.Uint && r.Unit == schema.None || r.Shape == schema.Decimal
		if !plain || r.Fields == 0 || r.Fields&(1<<engine.FieldExit|engine.FieldsUsage) != 0 {
			continue
		}
		n := naiveNumber{r.Name, engine.Field(bits.TrailingZeros64(uint64(r.Fields))), 0, maxPID, r.Number}
		switch {
		case r.Name == "ns_pid" || strings.HasSuffix(r.Name, "_ns"):
			n.least = 1
		case r.Name == "no_new_privs":
			n.most = 1
		case r.Name == "seccomp":
			n.most = 3
		case r.Name == "parent_signal":
			n.most = 255
		}
		all = append(all, n)
	}
	return all
}()

var naiveDevices = []struct {
	name string
	f    engine.Field
	get  func(p *engine.Process) string
}{
	{"tty", engine.FieldTTY, func(p *engine.Process) string { return fmt.Sprintf("%d:%d", p.TTY.Major, p.TTY.Minor) }},
	{"exe_dev", engine.FieldExeFile, func(p *engine.Process) string { return naiveDevice(p.ExeFile.Device) }},
	{"stdin_dev", engine.FieldStdio, func(p *engine.Process) string { return naiveDevice(p.Stdio[0].Device) }},
	{"stdout_dev", engine.FieldStdio, func(p *engine.Process) string { return naiveDevice(p.Stdio[1].Device) }},
	{"stderr_dev", engine.FieldStdio, func(p *engine.Process) string { return naiveDevice(p.Stdio[2].Device) }},
}

func naiveDevice(n uint32) string {
	return map[uint32]string{0: "0:0", 0x801: "8:1", 0x10_3412: "52:274"}[n]
}

var naiveUsage = []struct {
	name, unit string
	f          engine.Field
	get        func(u *engine.Usage) uint64
}{
	{"cpu_time", "ns", engine.FieldCPUTime, func(u *engine.Usage) uint64 { return u.UserTime + u.SystemTime }},
	{"user_time", "ns", engine.FieldCPUTime, func(u *engine.Usage) uint64 { return u.UserTime }},
	{"system_time", "ns", engine.FieldCPUTime, func(u *engine.Usage) uint64 { return u.SystemTime }},
	{"peak_rss", "M", engine.FieldPeakRSS, func(u *engine.Usage) uint64 { return u.PeakRSS >> 20 }},
	{"rchar", "", engine.FieldIO, func(u *engine.Usage) uint64 { return u.RChar }},
	{"wchar", "", engine.FieldIO, func(u *engine.Usage) uint64 { return u.WChar }},
	{"read_bytes", "", engine.FieldIO, func(u *engine.Usage) uint64 { return u.ReadBytes }},
	{"write_bytes", "", engine.FieldIO, func(u *engine.Usage) uint64 { return u.WriteBytes }},
}

var naiveTexts = []struct {
	name string
	f    engine.Field
	get  func(p *engine.Process) string
}{
	{"comm", engine.FieldComm, func(p *engine.Process) string { return p.Comm }},
	{"exe", engine.FieldExe, func(p *engine.Process) string { return p.Image.Exe }},
	{"exec_path", engine.FieldExecPath, func(p *engine.Process) string { return p.ExecPath }},
	{"cwd", engine.FieldCwd, func(p *engine.Process) string { return p.Cwd }},
	{"cgroup", engine.FieldCgroup, func(p *engine.Process) string { return p.Cgroup }},
	{"stdin_type", engine.FieldStdio, func(p *engine.Process) string { return p.Stdio[0].Type.String() }},
	{"stdout_type", engine.FieldStdio, func(p *engine.Process) string { return p.Stdio[1].Type.String() }},
	{"stderr_type", engine.FieldStdio, func(p *engine.Process) string { return p.Stdio[2].Type.String() }},
	{"stdin_family", engine.FieldStdio, func(p *engine.Process) string { return p.Stdio[0].Family.String() }},
	{"stdout_family", engine.FieldStdio, func(p *engine.Process) string { return p.Stdio[1].Family.String() }},
	{"stderr_family", engine.FieldStdio, func(p *engine.Process) string { return p.Stdio[2].Family.String() }},
	{"container_id", engine.FieldCgroup, func(p *engine.Process) string { return naiveContainer(p).ID }},
	{"container_runtime", engine.FieldCgroup, func(p *engine.Process) string { return naiveContainer(p).Runtime }},
	{"container_unit", engine.FieldCgroup, func(p *engine.Process) string { return naiveContainer(p).Unit }},
	{"container_pod", engine.FieldCgroup, func(p *engine.Process) string { return naiveContainer(p).Pod }},
}

func naiveContainer(p *engine.Process) engine.Container {
	q := engine.Process{Cgroup: p.Cgroup}
	q.Known = engine.FieldCgroup.Set()
	c, _ := q.Container()
	return c
}

// image has the fields that a kernel thread lacks.
var image = engine.SetOf(engine.FieldExe, engine.FieldArgs, engine.FieldExeFile, engine.FieldExecPath, engine.FieldEnviron, engine.FieldPrivileges, engine.FieldStdio)

// isKernelThread reports whether the process is a kernel thread according to its entry leader, and
// has no image.
func isKernelThread(p *engine.Process) bool {
	return p.Known.Has(engine.FieldEntryLeader) && !p.Cached.Has(engine.FieldEntryLeader) && p.EntryType == engine.EntryKThread &&
		p.Known&engine.SetOf(engine.FieldExe, engine.FieldArgs) == 0
}

func compare(op string, v, n uint64) bool {
	return map[string]bool{"==": v == n, "!=": v != n, "<": v < n, "<=": v <= n, ">": v > n, ">=": v >= n}[op]
}

// term returns a random term.
func (r events) term() testExpr {
	switch r.IntN(18) {
	case 0:
		if r.IntN(4) == 0 {
			return testExpr{"thread", func(ev *engine.Event) truth { return truthOf(ev.Thread) }}
		} else if r.IntN(4) == 0 {
			return testExpr{"gone", func(ev *engine.Event) truth { return truthOf(ev.Events == engine.EventGone) }}
		}
		k := engine.Kind(r.IntN(engine.NumKinds))
		if k == engine.KindGap {
			k = engine.KindExit
		}
		return testExpr{strings.ToLower(k.String()), func(ev *engine.Event) truth { return truthOf(ev.Events&k.Events() != 0) }}
	case 1:
		end := ifEnd(ifKnown(1<<engine.FieldExit, func(ev *engine.Event) bool {
			x := ev.Process.Task.Exit
			return x.Code() != 0 || x.Signal() != 0
		}))
		return testExpr{"failed", func(ev *engine.Event) truth {
			return max(end(ev), truthOf(ev.Events&engine.EventExecFailed != 0))
		}}
	case 2:
		f := naiveNumbers[r.IntN(len(naiveNumbers))]
		if op := pick(r, "<", "<=", ">", ">="); f.most > 1 && r.IntN(2) == 0 {
			n := pick(r, f.least+1, 2, 3, 1000, maxPID-1)
			switch n = min(n, f.most-1); {
			case op[0] == '<' && r.IntN(8) == 0:
				n = math.MaxUint32 + 1
			case op[0] == '>' && r.IntN(8) == 0:
				n = 0
			}
			return testExpr{fmt.Sprint(f.name, op, n), f.ifKnown(func(ev *engine.Event) bool { return compare(op, f.get(ev.Process), n) })}
		}
		var values []string
		var numbers []uint64
		for range 1 + r.IntN(3) {
			numbers = append(numbers, min(max(uint64(r.number()), f.least), f.most))
			values = append(values, strconv.FormatUint(numbers[len(numbers)-1], 10))
		}
		op := pick(r, "==", "!=")
		return testExpr{f.name + op + r.list(values), f.ifKnown(func(ev *engine.Event) bool {
			found := false
			for _, n := range numbers {
				found = found || f.get(ev.Process) == n
			}
			return found == (op == "==")
		})}
	case 3:
		f := naiveTexts[r.IntN(len(naiveTexts))]
		form := anyText
		switch f.name {
		case "exe":
			form = exePath
		case "cwd", "cgroup":
			form = rootedPath
		case "exec_path":
			form = anyPath
		}
		op, has, list := r.patterns(form)
		// Other values of these fields are errors.
		valid := map[string][]string{"runtime": {"", "docker", "containerd"}, "type": {"", "socket", "tty"}, "family": {"", "unix", "inet"}}
		if all := valid[f.name[strings.LastIndex(f.name, "_")+1:]]; all != nil {
			v := pick(r, all...)
			has, list = func(s string) bool { return s == v }, r.quoted(v)
		}
		return testExpr{f.name + " " + op + " " + list, func(ev *engine.Event) truth {
			if ev.Process.Truncated.Has(f.f) {
				return unknown
			}
			if image.Has(f.f) && isKernelThread(ev.Process) && !ev.Process.Known.Has(f.f) {
				return truthOf(has("") == (op[0] != '!'))
			}
			return ifKnown(f.f.Set(), func(ev *engine.Event) bool { return has(f.get(ev.Process)) == (op[0] != '!') })(ev)
		}}
	case 4:
		op, has, list := r.patterns(anyText)
		return testExpr{"args " + op + list, r.oneOf(op, engine.FieldArgs, has, func(p *engine.Process) []byte { return p.Image.Args })}
	case 7:
		op, has, list := r.patterns(anyText)
		name := pick(r, "A", "AB", "C")
		return testExpr{"environ." + name + op + list, r.oneOf(op, engine.FieldEnviron, func(s string) bool {
			return strings.HasPrefix(s, name+"=") && has(s[len(name)+1:])
		}, func(p *engine.Process) []byte { return p.Environ })}
	case 8:
		if r.IntN(3) == 0 {
			op, i, k := pick(r, "==", "!="), r.IntN(8), r.IntN(8)
			return testExpr{"ns_changed" + op + r.list([]string{engine.NSNames[i], engine.NSNames[k]}), func(ev *engine.Event) truth {
				return truthOf(ev.Events == engine.EventNSChange && (ev.NSChange.Changed&(1<<i|1<<k) != 0) == (op == "=="))
			}}
		}
		names, f := []string{"set_uid", "set_gid", "file_caps", "none"}, engine.FieldPrivileges
		bits := func(p *engine.Process) []bool {
			v := p.Privileges
			return []bool{v&engine.BySetUID != 0, v&engine.BySetGID != 0, v&engine.ByFileCaps != 0, v == 0}
		}
		field := "privileges"
		if r.IntN(2) == 0 {
			field, names, f = "exe_flags", []string{"set_uid", "set_gid", "other_writable", "removed", "none"}, engine.FieldExeFile
			bits = func(p *engine.Process) []bool {
				x := p.ExeFile
				b := []bool{x.Mode&04000 != 0, x.Mode&02000 != 0, x.Mode&2 != 0, x.Removed, false}
				b[4] = !b[0] && !b[1] && !b[2] && !b[3]
				return b
			}
		}
		op, i, k := pick(r, "==", "!="), r.IntN(len(names)), r.IntN(len(names))
		last := len(names) - 1
		return testExpr{field + op + r.list([]string{names[i], names[k]}), func(ev *engine.Event) truth {
			if isKernelThread(ev.Process) && !ev.Process.Known.Has(f) {
				return truthOf((i == last || k == last) == (op == "=="))
			}
			return ifKnown(f.Set(), func(ev *engine.Event) bool { b := bits(ev.Process); return (b[i] || b[k]) == (op == "==") })(ev)
		}}
	case 9:
		f := naiveUsage[r.IntN(len(naiveUsage))]
		op, n := pick(r, "<", ">="), 1+r.Uint64N(4)
		return testExpr{fmt.Sprint(f.name, op, n, f.unit), ifEnd(ifKnown(f.f.Set(), func(ev *engine.Event) bool { return compare(op, f.get(&ev.Process.Usage), n) }))}
	case 11:
		p := engine.Process{PID: r.number()} // with a start in the same unit
		p.Known = engine.FieldStart.Set()
		id, _ := p.EntityID(&testHost)
		op := pick(r, "==", "!=")
		return testExpr{"entity_id" + op + id, ifKnown(engine.FieldStart.Set(), func(ev *engine.Event) bool { return (ev.Process.PID == p.PID) == (op == "==") })}
	case 10:
		if r.IntN(3) == 0 {
			op, n := pick(r, "<", ">="), 1+r.Uint64N(4)
			return testExpr{fmt.Sprint("old_ppid", op, n), func(ev *engine.Event) truth {
				return truthOf(ev.Events.Has(engine.EventReparent) && compare(op, uint64(ev.OldPPID), n))
			}}
		}
		if r.IntN(3) == 0 {
			op, n := pick(r, "<", ">="), 1+r.Uint64N(4)
			return testExpr{fmt.Sprint("cgroup_change_by_pid", op, n), func(ev *engine.Event) truth {
				return truthOf(ev.Events.Has(engine.EventCgroupChange) && compare(op, uint64(ev.CgroupChangeBy.PID), n))
			}}
		}
		if r.IntN(2) == 0 {
			op := pick(r, "==", "!=")
			return testExpr{"exec_failed_errno" + op + "ENOENT", func(ev *engine.Event) truth {
				switch {
				case ev.Events != engine.EventExecFailed:
					return no
				case ev.Failed.Errno == 0:
					return unknown
				}
				return truthOf((ev.Failed.Errno == 2) == (op == "=="))
			}}
		}
		op, has, list := r.patterns(anyPath)
		return testExpr{"exec_failed_path" + op + list, func(ev *engine.Event) truth {
			switch {
			case ev.Events != engine.EventExecFailed:
				return no
			case !ev.Failed.PathKnown || ev.Failed.PathTruncated:
				return unknown
			}
			return truthOf(has(ev.Failed.Path) == (op[0] != '!'))
		}}
	case 5:
		f := naiveTexts[r.IntN(len(naiveTexts))]
		if r.IntN(2) == 0 {
			return testExpr{"known " + f.name, func(ev *engine.Event) truth {
				return truthOf(ev.Process.Known.Has(f.f) || image.Has(f.f) && isKernelThread(ev.Process))
			}}
		}
		return testExpr{"cached " + f.name, func(ev *engine.Event) truth { return truthOf(ev.Process.Cached.Has(f.f)) }}
	case 6:
		op, n := pick(r, "<", "<=", ">", ">="), r.Uint64N(100)+1
		return testExpr{fmt.Sprintf("duration %s %dns", op, n), ifEnd(func(ev *engine.Event) truth {
			p := ev.Process
			if !p.Known.Has(engine.FieldExit) {
				return unknown
			}
			// All times at which the process can have started.
			var begins []uint64
			switch forked := len(ev.Parts) > 0 && ev.Parts[0].Kind == engine.KindFork; {
			case !ev.Thread && p.Known.Has(engine.FieldStart) && (p.StartUnit == 1 || !forked):
				for i := range p.StartUnit {
					begins = append(begins, p.Start-testBootOffset+i)
				}
			case forked:
				begins = []uint64{ev.Parts[0].Time}
			default:
				return unknown
			}
			some := map[bool]bool{}
			for _, begin := range begins {
				some[compare(op, p.Task.Exit.Time-min(begin, p.Task.Exit.Time), n)] = true
			}
			if len(some) > 1 {
				return unknown
			}
			return truthOf(some[true])
		})}
	case 12:
		f := naiveDevices[r.IntN(len(naiveDevices))]
		op, value := pick(r, "==", "!="), pick(r, "0:0", "8:1", "52:274")
		return testExpr{f.name + op + value, func(ev *engine.Event) truth {
			if image.Has(f.f) && isKernelThread(ev.Process) && !ev.Process.Known.Has(f.f) {
				return no
			}
			return ifKnown(f.f.Set(), func(ev *engine.Event) bool { return (f.get(ev.Process) == value) == (op == "==") })(ev)
		}}
	case 13:
		op, n := pick(r, "<", ">=", "==", "!="), r.Uint64N(3)
		if op == "<" {
			n += pick[uint64](r, 1, 255)
		}
		return testExpr{fmt.Sprint("exit_code", op, n), ifEnd(ifKnown(engine.FieldExit.Set(), func(ev *engine.Event) bool {
			x := ev.Process.Task.Exit
			return x.Signal() == 0 && compare(op, uint64(x.Code()), n)
		}))}
	case 14:
		op, value := pick(r, "==", "!="), engine.EntryType(r.IntN(7)).String()
		return testExpr{"entry_leader_type" + op + value, ifKnown(engine.FieldEntryLeader.Set(), func(ev *engine.Event) bool {
			return (ev.Process.EntryType.String() == value) == (op == "==")
		})}
	case 15:
		n := uint64(2 + r.IntN(2))
		op := pick(r, "<", "<=", ">", ">=", "==", "!=")
		return testExpr{fmt.Sprint("pid", op, n), func(ev *engine.Event) truth { return truthOf(compare(op, uint64(ev.Process.PID), n)) }}
	default:
		op, n := pick(r, "==", "!=", ">=", "<="), pick[uint64](r, 0, 9, 11)
		word := fmt.Sprint(n)
		if name := map[uint64]string{9: "SIGKILL", 11: "SEGV"}[n]; name != "" && r.IntN(2) == 0 {
			word = name
		}
		return testExpr{"exit_signal" + op + word, ifEnd(ifKnown(1<<engine.FieldExit, func(ev *engine.Event) bool {
			return compare(op, uint64(ev.Process.Task.Exit.Signal()), n)
		}))}
	}
}

// oneOf returns a function for the result of a term about a list of NUL-terminated texts, of which
// one match is enough.
func (r events) oneOf(op string, f engine.Field, has func(string) bool, list func(p *engine.Process) []byte) func(ev *engine.Event) truth {
	return func(ev *engine.Event) truth {
		p := ev.Process
		if isKernelThread(p) && !p.Known.Has(f) {
			return truthOf(op[0] == '!')
		}
		if !p.Known.Has(f) {
			return unknown
		}
		all := bytes.Split(list(p), []byte{0})
		all = all[:len(all)-1]
		t := no
		if p.Truncated.Has(f) {
			t = unknown
			all = all[:max(0, len(all)-1)]
		}
		for _, one := range all {
			if has(string(one)) {
				t = yes
			}
		}
		if op[0] == '!' {
			return yes - t
		}
		return t
	}
}

// form is the kind of a text.
type form uint8

const (
	anyText form = iota
	anyPath
	rootedPath // a value begins with a slash
	exePath    // as rootedPath, but a value without a slash is compared with the last name only
)

// patterns returns an operator of texts, a function that reports whether a text is among the
// values, and the values.
func (r events) patterns(form form) (op string, has func(string) bool, list string) {
	op = pick(r, "==", "!=", "~", "!~")
	var values []string
	var matches []func(string) bool
	for range 1 + r.IntN(2) {
		v := pick(r, someTexts...)
		if strings.HasSuffix(op, "~") {
			v = r.glob()
		}
		before := ""
		if form == exePath && v != "" && !strings.HasPrefix(v, "**") && !strings.Contains(v, "/") {
			before = "**/"
		} else if form >= rootedPath && v != "" && !strings.Contains("/*?[", v[:1]) {
			v = "/" + v
		}
		match := func(s string) bool { return s == v }
		if before != "" {
			match = func(s string) bool { return strings.HasSuffix(s, "/"+v) }
		}
		if strings.HasSuffix(op, "~") {
			re := naiveGlob(before+v, form != anyText)
			match = func(s string) bool { return re.MatchString(s) }
		}
		values = append(values, r.quoted(v))
		matches = append(matches, match)
	}
	return op, func(s string) bool {
		for _, m := range matches {
			if m(s) {
				return true
			}
		}
		return false
	}, r.list(values)
}

func (r events) glob() (g string) {
	defer func() { // no path has an empty name
		if strings.Contains(g, "//") || strings.HasSuffix(g, "/") {
			g = r.glob()
		}
	}()
	star := false
	for range r.IntN(7) {
		e := pick(r, "*", "**", "?", "a", "b", "/", "s", "é", "[ab]", "[!a-c]", "[^/é]", "[]b]", `\*`, `\\`)
		if e[0] == '*' && star {
			continue
		}
		star = e[0] == '*'
		g += e
	}
	return g
}

// naiveGlob returns the regular expression of a pattern of events.glob.
func naiveGlob(g string, path bool) *regexp.Regexp {
	one, set := ".", ""
	if path {
		one, set = "[^/]", "/"
	}
	re := "(?s)^"
	for g != "" {
		switch {
		case strings.HasPrefix(g, "**"):
			re, g = re+".*", g[2:]
		case g[0] == '*':
			re, g = re+one+"*", g[1:]
		case g[0] == '?':
			re, g = re+one, g[1:]
		case g[0] == '[':
			end := 2 + strings.IndexByte(g[2:], ']')
			body := strings.Replace(g[1:end], "]", `\]`, 1)
			switch {
			case body[0] == '!' || body[0] == '^':
				body = "^" + body[1:] + set
			case path:
				body = strings.ReplaceAll(body, "/", "")
			}
			re, g = re+"["+body+"]", g[end+1:]
		case g[0] == '\\':
			re, g = re+regexp.QuoteMeta(g[1:2]), g[2:]
		default:
			re, g = re+regexp.QuoteMeta(g[:1]), g[1:]
		}
	}
	// In both, a byte that is not UTF-8 is a single character.
	return regexp.MustCompile(re + "$")
}

// expression returns a random expression.
func (r events) expression(depth int) testExpr {
	if depth == 0 || r.IntN(3) == 0 {
		return r.term()
	}
	a, b := r.expression(depth-1), r.expression(depth-1)
	switch r.IntN(3) {
	case 0:
		return testExpr{"not (" + a.text + ")", func(ev *engine.Event) truth { return [...]truth{yes, unknown, no}[a.eval(ev)] }}
	case 1:
		return testExpr{"(" + a.text + ") and (" + b.text + ")", func(ev *engine.Event) truth {
			x, y := a.eval(ev), b.eval(ev)
			switch {
			case x == no || y == no:
				return no
			case x == yes && y == yes:
				return yes
			}
			return unknown
		}}
	}
	return testExpr{a.text + "\n or " + b.text, func(ev *engine.Event) truth {
		x, y := a.eval(ev), b.eval(ev)
		switch {
		case x == yes || y == yes:
			return yes
		case x == no && y == no:
			return no
		}
		return unknown
	}}
}

// The compiled matcher and a naive evaluation of the same expression agree.
func TestCompiledAsNaive(t *testing.T) {
	n := 20_000
	if testing.Short() {
		n = 2000
	}
	said := map[truth]int{}
	for seed := range uint64(n) {
		r := events{rand.New(rand.NewPCG(seed, 1))}
		e := r.expression(r.IntN(4))
		f, err := Parse(e.text)
		if err != nil {
			t.Fatalf("seed %d: %s: %v", seed, e.text, err)
		}
		m, err := f.Matcher(engine.NewClock(nil, testHost, engine.Offset{Boot: testBootOffset}))
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			ev := r.event()
			want := e.eval(ev)
			said[want]++
			if got := m.Judge(ev); got != [...]engine.Verdict{engine.VerdictDrop, engine.VerdictUnsure, engine.VerdictPass}[want] {
				t.Fatalf("seed %d: %s: got %d, want %d, for %v, %+v", seed, e.text, got, want, ev.Events, ev.Process)
			}
		}
	}
	if len(said) != 3 || min(said[no], said[unknown], said[yes]) < n/2 {
		t.Errorf("some of the three results were too rare: %v", said)
	}
}

// Check accepts each expression that an event can make true.
func TestCheckAsNaive(t *testing.T) {
	refused, nonzero := 0, []int32{1 << 8, 2 << 8, 9}
	for seed := range uint64(5_000) {
		r := events{rand.New(rand.NewPCG(seed, 5))}
		e := r.expression(r.IntN(4))
		f, err := Parse(e.text)
		if err != nil {
			t.Fatal(err)
		}
		reported := Reported{Kinds: pick(r, engine.EventFork|engine.EventExec, ^engine.Events(0)), Threads: r.IntN(2) == 0, Nonzero: r.IntN(2) == 0, MinAgg: r.IntN(2) == 0}
		c := f.checker(reported)
		check := c.check(f.conditions[0])
		if check == nil {
			continue
		}
		refused++
		for range 20 {
			ev := r.event()
			of := pick(r, c.samples...)
			ev.Events, ev.Thread = of.Events, of.Thread
			if reported.Nonzero {
				ev.Process.Task.Exit.WaitStatus = pick(r, nonzero...)
			}
			if ev.Events.Has(engine.EventCoreDump) {
				ev.Process.Task.Exit.WaitStatus = pick(r, int32(11), int32(6|0x80))
			}
			if e.eval(ev) == yes {
				t.Fatalf("seed %d: %s is true for %v, %+v, but Check returned %v", seed, e.text, ev.Events, ev.Process, check)
			}
		}
	}
	if refused < 500 {
		t.Error("Check refused too few expressions:", refused)
	}
}

// Every word that a term can begin with is compared with the oracle, except tree, which
// TestTreeIsNeverWrong covers.
func TestNaiveCoversWords(t *testing.T) {
	first := regexp.MustCompile(`^[a-z_]+`)
	has := []string{"tree", "tag"}
	for seed := range uint64(20_000) {
		word := first.FindString(events{rand.New(rand.NewPCG(seed, 3))}.term().text)
		has = append(has, strings.Replace(word, "environ", "environ.NAME", 1))
	}
	slices.Sort(has)
	if has = slices.Compact(has); !slices.Equal(has, words()) {
		t.Errorf("the oracle has words %q, want %q", has, words())
	}
}

// If an invalid character is inserted into an expression, the error has its position.
func TestPositionOfErrors(t *testing.T) {
	for seed := range uint64(2000) {
		r := events{rand.New(rand.NewPCG(seed, 2))}
		text := r.expression(3).text
		s := scanner{src: text}
		var starts []int
		for tok := s.next(); tok.kind != tokenEnd; tok = s.next() {
			starts = append(starts, tok.at)
		}
		at := pick(r, starts...)
		for _, src := range []string{text[:at] + "\x01" + text[at:], text[:at] + `"` + "\n"} {
			before := text[:at]
			line := strings.Count(before, "\n") + 1
			column := len([]rune(before[strings.LastIndex(before, "\n")+1:])) + 1
			_, err := Parse(src)
			if e := new(Error); !errors.As(err, &e) || e.Line != line || e.Column != column {
				t.Fatalf("seed %d: %q: got %v, want line %d, column %d", seed, src, err, line, column)
			}
		}
	}
}
