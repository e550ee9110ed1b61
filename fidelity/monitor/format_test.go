package monitor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quark-linux/quark/engine"
)

// TestFormats checks that the formats of this package are well-formed.
func TestFormats(t *testing.T) {
	files, err := filepath.Glob("formats/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no formats: %v", err)
	}
	for _, file := range files {
		if _, err := ReadFormat(file, "true"); err != nil {
			t.Error(err)
		}
	}
}

func TestWrongFormats(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`{"members": {"pid": "p"}, "kind": "k", "unit": "s"}`, "unknown field"},
		{`{"members": {"comm": "c"}}`, "pid is missing"},
		{`{"members": {"pid": "p", "argc": "c"}}`, `unknown name "argc", want one of`},
		{`{"members": {"pid": "p"}, "kinds": {"a": "born"}}`, `"a" is "born", want one of core_dump, exec`},
		{`{"members": {"pid": "p"}, "time": {"member": "t", "unit": "min"}}`, `unknown unit "min", want one of ms, ns`},
		{`{"members": {"pid": "p"}, "time": {"member": "t", "unit": "s", "clock": "wall"}}`, `unknown clock "wall", want one of monotonic`},
		{`{"members": {"pid": "p"}, "time": {"unit": "s"}}`, "member is missing"},
		{`{"members": {"pid": "p"}, "late": "soon"}`, `"soon" is not a duration`},
		{`{"members": {"pid": "p"}, "at": {"comm": ["exec"]}}`, `"comm" is not among the members`},
		{`{"members": {"pid": "p"}, "absent": {"code": 0}}`, `absent: "code" is not among the members`},
		{`{"members": {"pid": "p"}, "partial": ["all"]}`, `unknown kind "all"`},
		{`{"members": {"pid": "p"}, "ids": {"a": "euid"}}`, `"a" is "euid", want one of gid, pgid, sid, uid`},
	} {
		if _, err := ParseFormat([]byte(c.text), "x"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.text, err, c.want)
		}
	}
}

// decodeAll decodes lines that all arrived at one time.
func decodeAll(t testing.TB, m *Monitor, text string, at uint64) (out Output, wrong []string) {
	t.Helper()
	d := m.Decoder()
	for line := range strings.Lines(text) {
		if err := d.Decode([]byte(strings.TrimSuffix(line, "\n")), at, &out); err != nil {
			wrong = append(wrong, err.Error())
		}
	}
	return out, wrong
}

// The first two lines are the examples in Tetragon's documentation of process_exec and
// process_exit. The status is omitted if it is 0.
func TestTetragon(t *testing.T) {
	always := engine.SetOf(engine.FieldPPID, engine.FieldUIDs, engine.FieldExe, engine.FieldCwd)
	end := engine.SetOf(engine.FieldPPID, engine.FieldExit)
	events := sampleOf(t, "tetragon").Events
	compareSample(t, events, []described{
		{engine.EventExec, 51583, 43872, 0, "", "/", "", 0, always},
		{engine.EventExit, 51583, 43872, 0, "", "/", "", 0, always | end},
		{engine.EventExit, 7, 1, 0, "", "", "", 9, end},
		{engine.EventExit, 8, 1, 0, "", "", "", 3 << 8, end},
	})
	if exe := events[0].Process.Image.Exe; exe != "/usr/bin/whoami" {
		t.Errorf("got exe %s", exe)
	}
}

// described is the expected event of a format's sample line.
type described struct {
	kind            engine.Events
	pid, ppid, euid uint32
	comm, cwd, line string // line is the command line of an exec, with blanks
	status          int32  // of an end
	known           engine.Fields
}

// sampleOf decodes sample lines of a format, on a machine with a wall clock that began at 0.
func sampleOf(t *testing.T, name string) Output {
	t.Helper()
	m := formatOf(t, name)
	decoder := m.Decoder
	m.Decoder = func() Decoder {
		d := decoder().(*jsonDecoder)
		d.wall = 0
		return d
	}
	text, err := os.ReadFile("testdata/" + name + ".jsonl")
	if err != nil {
		t.Fatal(err)
	}
	out, wrong := decodeAll(t, m, string(text), 1)
	if len(wrong) > 0 {
		t.Fatalf("invalid lines: got %q", wrong)
	}
	return out
}

func compareSample(t *testing.T, events []*engine.Event, want []described) {
	t.Helper()
	if len(events) != len(want) {
		t.Fatalf("got %d events, want %d", len(events), len(want))
	}
	for i, w := range want {
		ev := events[i]
		p := ev.Process
		got := described{ev.Events, p.PID, p.PPID, p.Cred.EUID, p.Comm, p.Cwd, strings.TrimRight(strings.ReplaceAll(string(p.Image.Args), "\x00", " "), " "),
			p.Task.Exit.WaitStatus, p.Known}
		if got != w {
			t.Errorf("%d:\n got %+v, known %s\nwant %+v, known %s", i, got, got.known, w, w.known)
		}
	}
}

// Falco's user.uid is the effective id, its directories end with a slash, proc.exeline begins with
// the first argument (proc.cmdline with the name), and unknown values are null.
//
// These lines are not from a run. Their members, and the numbers among them, follow alerts that
// users of Falco published from 2021 to 2026 (evt.time, proc.pid and user.uid are numbers,
// proc.pname is null). The event drop follows the tests of falcosecurity/falcosidekick, where
// counts are texts.
func TestFalco(t *testing.T) {
	always := engine.SetOf(engine.FieldPPID, engine.FieldUIDs, engine.FieldComm, engine.FieldCwd)
	exec := always | engine.SetOf(engine.FieldExe, engine.FieldArgs)
	exit := always.With(engine.FieldExit)
	out := sampleOf(t, "falco")
	events := out.Events
	if n := len(events) - 1; n < 0 || events[n].Events != engine.EventGap || events[n].Gap.Count != 7 || out.Lost != 7 {
		t.Fatalf("got %+v and %d lost events, want 7 from the last line", events, out.Lost)
	}
	compareSample(t, events[:len(events)-1], []described{
		{engine.EventFork, 4711, 4700, 1000, "bash", "/home/ada", "", 0, always},
		{engine.EventExec, 4711, 4700, 1000, "ls", "/home/ada", "/bin/ls -l a b", 0, exec},
		{engine.EventExit, 4711, 4700, 1000, "ls", "/home/ada", "", 2 << 8, exit},
		{engine.EventFork, 4712, 4700, 1000, "bash", "/", "", 0, always},
		{engine.EventExec, 4712, 4700, 0, "su", "/", "su", 0, exec},
		{engine.EventExit, 4712, 4700, 0, "su", "/", "", 9, exit},
		{engine.EventExit, 4713, 1, 0, "x", "", "", 11 | 0x80, engine.SetOf(engine.FieldPPID, engine.FieldComm, engine.FieldExit)},
	})
	if at := events[0].Time; at != 1795572930123456789 {
		t.Errorf("first line: got time %d", at)
	}
	m := formatOf(t, "falco")
	if got := m.Foreign.As(engine.FieldUIDs, "1000 0"); got != "0 0" {
		t.Errorf("the ids 1000 and 0 are formatted as %s", got)
	}
	if got := m.Foreign.As(engine.FieldArgs, "a\x00b c\x00"); got != "a b c" {
		t.Errorf("the arguments are formatted as %q", got)
	}
}

// The output has only the exit code of an end, and no time. The lines follow ecs.c of elastic/quark
// at da5cf2d (2026-06-25): ids are numbers.
func TestCQuark(t *testing.T) {
	always := engine.SetOf(engine.FieldPPID, engine.FieldUIDs, engine.FieldSUID, engine.FieldGIDs, engine.FieldSGID, engine.FieldComm, engine.FieldCwd,
		engine.FieldExe, engine.FieldArgs)
	exit := always.With(engine.FieldExit)
	events := sampleOf(t, "c-quark").Events
	compareSample(t, events, []described{
		{engine.EventFork, 4711, 4700, 1000, "bash", "/home/ada", "bash", 0, always},
		{engine.EventExec, 4711, 4700, 0, "su", "/home/ada", "su -", 0, always},
		{engine.EventExit, 4711, 4700, 0, "su", "/home/ada", "su -", 2 << 8, exit},
		{engine.EventExit, 4712, 0, 1000, "x", "/", "", 0, exit &^ engine.FieldPPID.Set()},
	})
	if c := events[1].Process.Cred; c.UID != 1000 || c.SUID != 0 || c.GID != 1000 || c.EGID != 1000 || c.SGID != 1000 {
		t.Errorf("got %+v", c)
	}
	if m := formatOf(t, "c-quark"); !m.Foreign.NoStamps {
		t.Error("the table has a time")
	}
}

const nested = `{
	"kinds": {"started": "exec", "over": "exit"}, "time": {"member": "at", "unit": "us", "clock": "monotonic"},
	"only": {"host/name": "here"},
	"members": {"pid": "*/process/pid", "uid": "*/process/uid", "comm": "*/process/name", "command_line": "*/process/line",
		"no_new_privs": "*/process/nnp", "pid_ns": "*/process/ns", "code": "*/code", "signal": "*/signal", "core": "*/core"}}`

func TestDecodeNested(t *testing.T) {
	m, err := ParseFormat([]byte(nested), "nested")
	if err != nil {
		t.Fatal(err)
	}
	out, wrong := decodeAll(t, m, `
{"host":{"name":"here"},"at":1000002.5,"started":{"process":{"pid":7,"uid":1000,"name":"a b","line":"a b c ","nnp":1,"ns":5}}}
{"host":{"name":"there"},"at":3,"started":{"process":{"pid":8}}}
{"host":{"name":"here"},"at":"1000003","over":{"process":{"pid":7},"code":3}}
{"host":{"name":"here"},"at":4,"over":{"process":{"pid":9},"signal":"SIGSEGV","core":true}}
{"host":{"name":"here"},"at":4,"other":{"process":{"pid":9}}}
{"host":{"name":"here"},"at":4,"over":{"process":{"pid":0}}}
{"host":{"name":"here"},"over":{"process":{"pid":1}}}
{"host":{"name":"here"},"at":4,"over":{"process":{"pid":9},"code":"many"}}
{"host"
`, 1)
	if len(wrong) != 4 || len(out.Events) != 3 {
		t.Fatalf("got %d events, invalid lines %q", len(out.Events), wrong)
	}
	a, b, c := out.Events[0], out.Events[1], out.Events[2]
	p := a.Process
	// The field of pid_ns and ns_pid is unknown if one of the two is missing.
	if a.Events != engine.EventExec || a.Time != 1000002500 || p.Comm != "a b" || string(p.Image.Args) != "a b c" || p.Cred.UID != 1000 || p.Cred.EUID != 1000 ||
		p.NoNewPrivs != 1 || p.Known != engine.SetOf(engine.FieldComm, engine.FieldArgs, engine.FieldUIDs, engine.FieldNoNewPrivs) {
		t.Errorf("got %+v %+v", a, p)
	}
	if x := b.Process; b.Events != engine.EventExit || !x.Exited || x.Task.Exit.WaitStatus != 3<<8 || x.Known != engine.FieldExit.Set() {
		t.Errorf("got %+v", x)
	}
	if x := c.Process; x.Task.Exit.WaitStatus != 11|0x80 {
		t.Errorf("got %+v", x)
	}
	if got := m.Foreign.As(engine.FieldUIDs, "5 0"); got != "5 5" {
		t.Error(got)
	}
}

func TestDecimal(t *testing.T) {
	for _, c := range []struct {
		text, unit string
		want       int64
	}{
		{"1795547001.123456789", "s", 1795547001123456789}, {"1.5", "ms", 1500000}, {"7", "us", 7000}, {"7.9", "ns", 7}, {"12", "s", 12000000000},
	} {
		if got, err := decimal(c.text, c.unit); err != nil || got != c.want {
			t.Errorf("%s %s: got %d, want %d (error %v)", c.text, c.unit, got, c.want, err)
		}
	}
	if _, err := decimal("1e9", "s"); err == nil {
		t.Error("1e9 is accepted")
	}
}

// fuzz lets a decoder read arbitrary input: its output must be scorable.
func fuzz(f *testing.F, m *Monitor, seeds ...string) {
	for _, s := range seeds {
		b, err := os.ReadFile(filepath.Join("testdata", s))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d := m.Decoder()
		var out Output
		split := m.split()
		for len(b) > 0 {
			n, line, _ := split(b, true)
			if n == 0 {
				break
			}
			b = b[n:]
			d.Decode(line, 1<<40, &out) // an invalid line is an error
		}
		for _, ev := range out.Events {
			if ev.Process == nil || len(ev.Events.Names(nil)) == 0 {
				t.Fatalf("got %+v", ev)
			}
			if ev.Events.Has(engine.EventExit) && !ev.Thread && !ev.Process.Exited {
				t.Fatalf("an EXIT of %d without a status", ev.Process.PID)
			}
		}
	})
}

func FuzzJSON(f *testing.F) {
	b, err := os.ReadFile("formats/quark-mon.json")
	if err != nil {
		f.Fatal(err)
	}
	m, err := ParseFormat(b, "quark-mon")
	if err != nil {
		f.Fatal(err)
	}
	fuzz(f, m, "quark-mon.jsonl")
}

func FuzzFalco(f *testing.F) { fuzz(f, formatOf(f, "falco"), "falco.jsonl") }

func FuzzFormat(f *testing.F) {
	f.Add([]byte(nested))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ParseFormat(b, "x")
		if err != nil {
			return
		}
		var out Output
		m.Decoder().Decode([]byte(`{"a":{"pid":1},"time":"2026-01-02T03:04:05Z"}`), 1, &out)
	})
}

// formatOf returns the monitor of a committed format.
func formatOf(t testing.TB, name string) *Monitor {
	t.Helper()
	m, err := ReadFormat("formats/"+name+".json", "none")
	if err != nil {
		t.Fatal(err)
	}
	return m
}
