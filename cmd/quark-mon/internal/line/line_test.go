package line

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/engine/enginetest"
	"github.com/quark-linux/quark/internal/golden"
)

func columns(t testing.TB, list string) []Column {
	t.Helper()
	c, err := Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var zeroClock = engine.NewClock(nil, quark.Host{}, engine.Offset{Wall: time.Unix(0, 0)})

// printed returns the lines of the processes and events of a source.
func printed(t *testing.T, source quark.Source, o Options, width, height int, qo quark.Options) (b []byte) {
	t.Helper()
	q, err := quark.New(source, qo)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	o.Clock, o.Zone = q.Clock(), time.UTC
	p := New(o)
	p.SetSize(width, height)
	for proc := range q.Processes() {
		b = p.Append(b, &quark.Event{Process: proc, TID: proc.PID, Wall: q.Clock().At(proc.AsOf())})
	}
	for ev, err := range q.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		b = p.Append(b, ev)
	}
	return b
}

func made(_ *quark.Process, uid uint32) string {
	return map[uint32]string{0: "root", 33: "www-data", 1000: "größe", 1001: "two\nlines", 1002: "a-name-of-a-service-user"}[uid]
}

// odd returns a machine with many hostile or wide texts.
func odd() *enginetest.Machine {
	m := enginetest.NewMachine()
	sh := m.Running("/bin/sh", "-l")
	kthread := m.Running("kthreadd")
	_ = kthread
	sh.Fork().Exec("/bin/true").Exit(0)
	sh.Fork().Exec("/bin/false").Exit(1)
	sh.Fork().Exec("/usr/bin/printf", "a b", "", "it's", "$HOME", `back\slash`, "\x1b[31mred\a", "tab\there\n").Exit(0)
	sh.Fork().Exec("/bin/größe", "日本語", "e\u0301", "\u0301", "a\u0301\u0301\u0301", "\xff\xc3", "\u202eevil", "❤️", "ﾊﾟ", "~", "a=b").Kill(11 | 0x80)
	sh.Fork().Exec("/usr/bin/sleep", "\x1b]0;title\a").SetUID(1000).SetUID(1001).Kill(9)
	m.Sleep(3 * time.Second)
	worker := sh.Fork().Exec("/usr/sbin/nginx").SetUID(33).SetComm("ngi\x1bnx")
	m.Miss(engine.LossRingFull, 583)
	sh.Fork().Exec("/bin/" + strings.Repeat("long", 40)).Exit(127)
	m.Sleep(90 * time.Second)
	worker.SetUID(1002).SetSID().Kill(40)
	return m
}

func TestGolden(t *testing.T) {
	for _, c := range []struct {
		name, columns string
		width, height int
		colour        bool
	}{
		{"default", Default, 100, 12, false},
		{"colour", Default, 80, 0, true},
		{"narrow", Narrow, 80, 0, false},
		{"tiny", Default, 40, 0, false},
		{"all", strings.Join(Names(), ","), 0, 0, false},
		{"args", "args,pid", 60, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := Options{Columns: columns(t, c.columns), Colour: c.colour, User: made}
			golden.Compare(t, "testdata/"+c.name+".txt", printed(t, odd(), o, c.width, c.height, quark.Options{}))
		})
	}
}

// Events that backends recorded fit into lines, with their unknown and cached values.
func TestTraces(t *testing.T) {
	files, _ := filepath.Glob("../../../../engine/enginetest/testdata/*.trace")
	for _, file := range files {
		o := Options{Columns: columns(t, strings.Join(Names(), ",")), Colour: true}
		checkLine(t, printed(t, enginetest.Trace(t, file), o, 300, 9, quark.Options{}), 300, true)
	}
	if len(files) < 3 {
		t.Skip("the recordings are missing")
	}
}

// Lines show GONE, an end without a status, a start time from /proc, impossible values, and failed
// execs.
func TestUncertain(t *testing.T) {
	var b []byte
	p := New(Options{Columns: columns(t, "duration,status,user,args"), Clock: engine.NewClock(nil, quark.Host{}, engine.Offset{Boot: 5}), Zone: time.UTC, User: made})
	for _, c := range []struct {
		known, cached quark.Fields
		start, unit   uint64
		end           uint64
		fork          uint64
		gone, thread  bool
	}{
		{},
		{known: quark.SetOf(quark.FieldExit)},
		{known: quark.SetOf(quark.FieldExit, quark.FieldStart, quark.FieldUIDs), start: 1005, unit: 1, end: 5001},
		{known: quark.SetOf(quark.FieldExit, quark.FieldStart, quark.FieldUIDs, quark.FieldArgs), cached: quark.AllFields, start: 10e6, unit: 1e7, end: 45e6},
		{known: quark.SetOf(quark.FieldExit, quark.FieldStart), start: 10e6, unit: 1e7, end: 45e6, fork: 44e6},
		{known: quark.SetOf(quark.FieldExit, quark.FieldStart), start: 10e6, unit: 1e7, end: 2e9},
		{known: quark.SetOf(quark.FieldExit, quark.FieldStart), start: 10e6, unit: 1, end: 1e6},
		{known: quark.SetOf(quark.FieldExit, quark.FieldStart), start: 10e6, unit: 1, end: 1e9, thread: true},
		{known: quark.SetOf(quark.FieldExit, quark.FieldStart), start: 10e6, unit: 1, end: 1e9, thread: true, fork: 4e8},
		{known: quark.SetOf(quark.FieldStart, quark.FieldComm), gone: true},
	} {
		ev := &quark.Event{Events: quark.EventExit, Thread: c.thread, Process: &quark.Process{PID: 7, Exited: true, Comm: "a b"}}
		if c.gone {
			ev.Events = quark.EventGone
		}
		if c.fork != 0 {
			ev.Parts = []quark.Part{{Kind: engine.KindFork, Time: c.fork}, {Kind: engine.KindExit, Time: c.end}}
		}
		t := &ev.Process.Task
		t.Known, t.Cached, t.Start, t.StartUnit, t.Exit.Time = c.known, c.cached&c.known, c.start, c.unit, c.end
		b = p.Append(b, ev)
	}
	for _, f := range []quark.FailedExec{
		{}, {Errno: 2, Path: "/a b", PathKnown: true, PathCached: true}, {Errno: 36, Path: "/a", PathKnown: true, PathTruncated: true},
	} {
		b = p.Append(b, &quark.Event{Events: quark.EventExecFailed, Unsure: f.PathTruncated, Failed: f, Process: &quark.Process{PID: 7}})
	}
	golden.Compare(t, "testdata/uncertain.txt", b)
}

func TestContainer(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	p := New(Options{Columns: columns(t, "container_id"), Clock: zeroClock, Zone: time.UTC})
	for _, c := range []struct {
		cgroup    string
		cached    bool
		truncated bool
		want      string
	}{
		{"/system.slice/docker-" + id + ".scope", false, false, "0123456789ab"},
		{"/docker/" + id + "/inside", true, false, "*0123456789ab"},
		{"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" + id + ".scope", false, false, "0123456789ab@user@1000.service"},
		{"/lxc.payload.a\nb", false, false, "$'a\\nb'"},
		{"/init.scope", false, false, "-"},
		{"...", true, true, "?"},
	} {
		ev := &quark.Event{Process: &quark.Process{Cgroup: c.cgroup}}
		ev.Process.Known = quark.FieldCgroup.Set()
		if c.cached {
			ev.Process.Cached = ev.Process.Known
		}
		if c.truncated {
			ev.Process.Truncated = ev.Process.Known
		}
		lines := strings.Split(string(p.Append(nil, ev)), "\n")
		if got := lines[len(lines)-2]; got != c.want {
			t.Errorf("%s: %q, not %q", c.cgroup, got, c.want)
		}
	}
}

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0us", 999: "0us", 1234 * time.Microsecond: "1.2ms", 12345 * time.Microsecond: "12ms",
		1999 * time.Millisecond: "1.99s", 59999 * time.Millisecond: "59.9s", 61 * time.Second: "1m01s",
		3600 * time.Second: "1h00m", 49 * time.Hour: "2d01h", -1: "?",
	} {
		if got := Short(d); got != want {
			t.Errorf("%v: %s, not %s", d, got, want)
		}
	}
}

func TestAllocatesNothing(t *testing.T) {
	ev := &quark.Event{Events: quark.EventFork | quark.EventExit, Process: &quark.Process{PID: 70000, Exited: true}}
	ev.Process.Known, ev.Process.PPID, ev.Process.Image.Args = quark.AllFields, 70000, []byte("a\x00b c\x00")
	p := New(Options{Columns: columns(t, Default), Clock: zeroClock, Zone: time.UTC})
	b := p.Append(nil, ev)
	if n := testing.AllocsPerRun(100, func() { b = p.Append(b[:0], ev) }); n != 0 {
		t.Errorf("got %v allocations, want none", n)
	}
}

func TestParse(t *testing.T) {
	for list, want := range map[string]string{
		"time,foo": `there is no column "foo": choose from time,clock,date,duration,event,`,
		"":         `there is no column ""`, "pid,": `there is no column ""`, "PID": `there is no column "PID"`,
	} {
		if _, err := Parse(list); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, not %s", list, err, want)
		}
	}
}

// A shell reads the output of quote as the same words.
func TestQuoteIsOfShell(t *testing.T) {
	for text, want := range map[string]string{
		"plain": "plain", "": "''", "a b": "'a b'", "it's": `$'it\'s'`, `a\b`: `'a\b'`, "a\\\n": `$'a\\\n'`, "\xff": `$'\xff'`,
		"\x01": `$'\x01'`, "\u0085": `$'\u0085'`, "größe": "größe", "$(reboot)": "'$(reboot)'", "\U000e0001": `$'\U000e0001'`,
		"\u0301x": `$'\u0301x'`, "\n\u0301": "$'\\n\u0301'",
	} {
		var c cell
		c.reset(100)
		if c.quote(text); string(c.b) != want {
			t.Errorf("%q: %s, not %s", text, c.b, want)
		}
	}
}

var sequence = regexp.MustCompile("\x1b\\[[0-9;]*m")

// columnsOf returns the number of columns that a text takes. It counts in another way than next.
func columnsOf(s string) (n int) {
	for _, r := range s {
		switch {
		case unicode.Is(unicode.Mn, r) && r != 0xfe0f || unicode.Is(unicode.Me, r):
		case r >= 0x1100 && (unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana) && !(r >= 0xff61 && r <= 0xffdc) && r != 0x1160):
			n += 2
		default:
			n++
		}
	}
	return n
}

// checkLine fails the test if a line is too wide, or has bytes that a terminal could take for a
// command.
func checkLine(t *testing.T, b []byte, width int, colour bool) {
	t.Helper()
	text, ok := strings.CutSuffix(string(b), "\n")
	if !ok {
		t.Fatalf("%q does not end", b)
	}
	if !utf8.ValidString(text) {
		t.Fatalf("%q is not UTF-8", text)
	}
	for line := range strings.SplitSeq(text, "\n") {
		bare := line
		if colour {
			bare = sequence.ReplaceAllString(line, "")
		}
		for _, r := range bare {
			if !strconv.IsPrint(r) {
				t.Fatalf("%q has %q", bare, r)
			}
		}
		if width > 0 && columnsOf(bare) > width {
			t.Fatalf("%q is wider than %d", bare, width)
		}
		if strings.HasSuffix(bare, "\x1b") {
			t.Fatalf("%q", bare)
		}
	}
}

// Texts with any bytes cause no panic, no command to the terminal, and no line that is too wide.
func FuzzAppend(f *testing.F) {
	f.Add([]byte("/bin/echo\x00\x1b[31m\x00"), "comm", "user", "time,user,args", uint64(0), uint32(3), 20, 5, false)
	f.Add([]byte("日本語\xff\x00"), "\u0301\u0301", "a\u0301\u0301\u0301", strings.Join(Names(), ","), ^uint64(0), ^uint32(0), 7, 1, true)
	f.Add([]byte("\x00\x00"), "", "\n:", "args,comm,exe,cwd,cgroup,tty", uint64(1)<<40, uint32(quark.EventGap), 1, 0, true)
	f.Add([]byte(strings.Repeat("a\u0300", 999)), "❤️", "ﾊﾟ", "args,event,duration,status", uint64(5), uint32(quark.EventGone|quark.EventExit), -1, -1, true)
	f.Fuzz(func(t *testing.T, cmdline []byte, text, name, list string, bits uint64, events uint32, width, height int, colour bool) {
		cols, err := Parse(list)
		if err != nil {
			cols = columns(t, Default)
		}
		p := New(Options{Columns: cols, Colour: colour, Clock: zeroClock, Zone: time.UTC, User: func(*quark.Process, uint32) string { return name }})
		p.SetSize(width, height)
		ev := &quark.Event{Events: quark.Events(events), Time: bits, CPU: events, Thread: bits&1 != 0, TID: uint32(bits), Wall: zeroClock.At(bits)}
		ev.IDChange = quark.IDChange(bits)
		ev.Gap = quark.Gap{Count: bits, From: bits, To: bits + 7, Cause: quark.Loss(bits), CPU: events}
		if bits&2 != 0 {
			ev.Parts = []quark.Part{{Kind: quark.Kind(bits), Time: bits}, {Kind: quark.Kind(events), Time: bits + 1}}
		}
		proc := &quark.Process{PID: uint32(bits), Comm: text, Image: quark.Image{Exe: text, Args: cmdline}, Cwd: text, Cgroup: name, Exited: bits&4 != 0, EntryType: quark.EntryType(events)}
		proc.Known = quark.Fields(bits >> 8)
		proc.Cached = quark.Fields(bits>>16) & proc.Known
		proc.Truncated = quark.Fields(bits>>20) & proc.Known
		proc.Start, proc.StartUnit, proc.Task.Exit = bits, uint64(events), quark.Exit{WaitStatus: int32(events), Time: bits * 3}
		proc.Cred.UID, proc.TTY = events, quark.TTY{Major: uint32(bits) & 0xff, Minor: events}
		ev.Process = proc
		b := p.Ancestors(nil, []*quark.Process{proc, proc}, bits&8 != 0)
		for p.Depth = range 3 {
			b = p.Append(b, ev)
		}
		checkLine(t, b, width, colour)
	})
}

func TestLogin(t *testing.T) {
	p := New(Options{Columns: columns(t, "login_user,login_session,group,egroup"), Clock: zeroClock, User: made, Group: made})
	proc := &quark.Process{}
	ev := &quark.Event{Process: proc}
	p.Append(nil, ev)
	for _, c := range []struct {
		known quark.Fields
		login quark.Login
		want  string
	}{
		{0, quark.Login{}, "?                      ? ?        ?       "},
		{quark.SetOf(quark.FieldLogin), quark.Login{UID: quark.LoginUnset, Session: quark.LoginUnset}, "-                      - ?        ?       "},
		{quark.SetOf(quark.FieldLogin, quark.FieldGIDs), quark.Login{UID: 1000, Session: 4711}, "größe               4711 www-data 7       "},
	} {
		proc.Known, proc.Login, proc.Cred.GID, proc.Cred.EGID = c.known, c.login, 33, 7
		if got := strings.TrimRight(string(p.Append(nil, ev)), " \n"); got != strings.TrimRight(c.want, " ") {
			t.Errorf("%q, not %q", got, c.want)
		}
	}
}
