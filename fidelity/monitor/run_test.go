package monitor

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/meter"
	"github.com/quark-linux/quark/fidelity/monitor/supervisor"
	"github.com/quark-linux/quark/fidelity/recorder"
	"github.com/quark-linux/quark/internal/retry"
)

func TestMain(m *testing.M) {
	supervisor.Main()
	meter.Main()
	os.Exit(m.Run())
}

// ticks decodes lines of a fake monitor: each "tick" means the end of all processes that started
// recently.
type ticks struct{}

func (ticks) Decode(line []byte, at uint64, to *Output) error {
	if string(line) != "tick" {
		return errors.New("no tick")
	}
	b, _ := os.ReadFile("/proc/loadavg")
	var last int
	fmt.Sscan(string(b[strings.LastIndexByte(string(b), ' ')+1:]), &last)
	for pid := max(1, last-2000); pid <= last; pid++ {
		ev, _ := to.add(engine.KindExit, uint32(pid), at)
		setExit(ev, 0)
	}
	return nil
}

const forever = `while echo tick; do sleep 0.01; done`

func fake(script string) *Monitor {
	return &Monitor{
		Name: "fake", Programs: []string{"sh"}, Arguments: []string{"-c", script},
		Table: table(map[engine.Kind]string{engine.KindExit: "tick"}, nil), Decoder: func() Decoder { return ticks{} },
	}
}

func TestRun(t *testing.T) {
	for _, c := range []struct {
		name, script string
		terminal     bool
		start        string // expected in the error of Start
		settle       string // expected in the error of WaitDelivered
		note         string
		lost         uint64
	}{
		{name: "as it should be", script: `trap 'exit 0' INT; ` + forever},
		{name: "it loses events", script: `trap 'exit 0' INT; echo 'lost 12 events on CPU #0' >&2; ` + forever, lost: 12},
		{name: "on a terminal", script: `trap 'exit 0' INT; test -t 1 && ` + forever, terminal: true},
		{name: "it is missing a feature", script: `echo no such tracepoint >&2; exit 3`, start: "the monitor exited with 3: no such tracepoint"},
		{name: "it says nothing", script: `sleep 1000`, start: "not ready after 1s"},
		{name: "it only complains", script: `echo no room >&2; sleep 1000`, start: "; it said: no room"},
		{name: "invalid output", script: `echo what; sleep 1000`, start: `all 1 lines are invalid, the first: "what": no tick`},
		{name: "much invalid output", script: `yes`, start: `lines are invalid, the first: "y": no tick`},
		{name: "a line without an end", script: `yes | tr -d '\n'`, terminal: true, start: "without a line end"},
		{name: "some invalid output", script: `trap 'exit 0' INT; echo what; sleep 0.3; ` + forever, note: `1 lines are invalid, the first: "what": no tick`},
		{name: "it dies", script: `for i in 1 2 3 4 5 6 7 8 9 0; do echo tick; sleep 0.02; done; echo out of memory >&2; kill -9 $$`, settle: "the monitor ended", note: "killed by signal 9 (killed): out of memory"},
		{name: "it hangs", script: `for i in 1 2 3 4 5 6 7 8 9 0; do echo tick; sleep 0.02; done; sleep 1000`, settle: "the monitor hangs: after 1s"},
		{name: "it does not end", script: `trap '' INT; ` + forever, note: "did not end within 500ms of SIGINT and was killed"},
		{name: "it leaves a process", script: `trap 'exit 0' INT; setsid sleep 1000 & ` + forever, note: "left running, and killed: process "},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := fake(c.script)
			m.Terminal = c.terminal
			patience := 20 * time.Second
			if c.name == "it hangs" || c.start != "" && !c.terminal {
				patience = time.Second
			}
			began := time.Now()
			r, err := m.Start(Options{Patience: patience, Grace: 500 * time.Millisecond})
			if !contains(err, c.start) || err != nil && (strings.Contains(err.Error(), "still open") || strings.Count(err.Error(), "no tick") > 1) {
				t.Errorf("start: got error %v, want %q", err, c.start)
			}
			if took := time.Since(began); err != nil && took > 40*time.Second {
				t.Errorf("%v passed before the error %v", took, err)
			}
			if err != nil {
				return
			}
			if c.settle != "" {
				time.Sleep(time.Second)
			}
			go func() { // reads like a listener
				for r.Block(-1) == nil {
					for _, err := r.Get(); err == nil; _, err = r.Get() {
					}
				}
			}()
			if err := r.WaitDelivered(); !contains(err, c.settle) {
				t.Errorf("settle: got error %v, want %q", err, c.settle)
			}
			u, notes := r.Stop()
			if u.Lost != c.lost {
				t.Errorf("got %d lost events, want %d", u.Lost, c.lost)
			}
			all := strings.Join(notes, "\n")
			if c.note == "" && c.settle == "" && all != "" || !strings.Contains(all, c.note) {
				t.Errorf("notes: got %q, want %q", all, c.note)
			}
		})
	}
}

func contains(err error, text string) bool {
	if err == nil {
		return text == ""
	}
	return text != "" && strings.Contains(err.Error(), text)
}

func TestNotInstalled(t *testing.T) {
	m := forkstat()
	m.Programs = []string{"no-such-program"}
	if _, err := m.Start(Options{}); !contains(err, "no-such-program is not installed: apt-get install forkstat") {
		t.Error(err)
	}
	m = perf()
	m.Needs = []string{"no-such-program"}
	if _, err := m.Start(Options{}); !contains(err, "no-such-program is not installed: apt-get install linux-perf") {
		t.Error(err)
	}
	if _, err := audit().Start(Options{}); !contains(err, "runs only on a machine for tests (QUARK_INITRAMFS=1): once audit was enabled") {
		t.Error(err)
	}
	if _, err := Find("nothing"); !contains(err, "use one of forkstat, execsnoop, exitsnoop, bpftrace, perf, strace, acct, audit") {
		t.Error(err)
	}
}

func TestEachMonitorClaims(t *testing.T) {
	for _, m := range All() {
		if m.lastKind() == 0 {
			t.Errorf("%s reports no event of a process", m.Name)
		}
		for k, c := range m.Table.Kinds {
			if c.Via == "" {
				t.Errorf("%s: %v: no reason", m.Name, engine.Kind(k))
			}
		}
		for f, c := range m.Table.Fields {
			if c.Via == "" || c.Origin != engine.OriginNone && c.At == 0 {
				t.Errorf("%s: %v: got %+v", m.Name, engine.Field(f), c)
			}
		}
	}
}

// Hold delays the decoding of all output until Release.
func TestHold(t *testing.T) {
	m := fake(`trap 'exit 0' INT; ` + forever)
	r, err := m.Start(Options{})
	if err != nil {
		t.Fatal(err)
	}
	r.Hold()
	time.Sleep(50 * time.Millisecond) // earlier output is decoded meanwhile
	before := r.Events()
	time.Sleep(100 * time.Millisecond)
	if now := r.Events(); now != before {
		t.Errorf("got %d events while the output is held", now-before)
	}
	r.Release()
	for range retry.For(10 * time.Second) {
		if r.Events() > before {
			break
		}
	}
	if r.Events() == before {
		t.Error("got no event after the release")
	}
	r.Hold() // Stop works while the output is held
	if _, notes := r.Stop(); len(notes) > 0 {
		t.Error(notes)
	}
}

// Each backend runs as a monitor.
func TestBackend(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	for _, name := range backends.Every.Names() {
		t.Run(name, func(t *testing.T) {
			m, err := Backend(name)
			if err != nil {
				t.Skip(err)
			}
			r, err := m.Start(Options{})
			if err != nil {
				t.Fatal(err)
			}
			l := recorder.NewListener(r, 0, false)
			l.Start()
			defer l.Pause()
			if err := r.WaitDelivered(); err != nil {
				t.Error(err)
			}
			programs := r.Programs()
			if (len(programs) > 0) != strings.HasPrefix(name, "ebpf") {
				t.Errorf("got %d eBPF programs", len(programs))
			}
			u, notes := r.Stop()
			t.Log(r.Ready, u)
			if len(notes) > 0 || u.Raw == 0 || u.RSS == 0 {
				t.Error(u, notes)
			}
		})
	}
	if _, err := Backend("nothing"); !contains(err, `unknown backend "nothing"`) {
		t.Error(err)
	}
}
