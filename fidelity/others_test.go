package fidelity

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/monitor"
	"github.com/quark-linux/quark/fidelity/recorder"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/fidelity/score"
	"github.com/quark-linux/quark/fidelity/truth"
	"github.com/quark-linux/quark/internal/thorough"
)

// quarkMon returns a quark-mon command as a monitor, by its committed format.
func quarkMon(t *testing.T, command string) *monitor.Monitor {
	t.Helper()
	m, err := monitor.ReadFormat("monitor/formats/quark-mon.json", command)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// tee also stores each delivered event as a JSON line.
type tee struct {
	*quark.Queue
	lines [][]byte
	at    []uint64
}

func (q *tee) Get() (*engine.Event, error) {
	ev, err := q.Queue.Get()
	if err == nil {
		q.lines, q.at = append(q.lines, q.AppendJSON(nil, ev)), append(q.at, truth.Clock())
	}
	return ev, err
}

// TestJSONIsScoredAlike checks that events and their JSON have the same score, as far as JSON has
// the fields.
func TestJSONIsScoredAlike(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	selected, err := Select(nil)
	if err != nil {
		t.Fatal(err)
	}
	const hold = 100 * time.Millisecond
	var open []*recorder.Recorder
	var queues []*tee
	for _, backend := range backends.All.Names() {
		l, err := OpenQueue(backend, quark.Options{HoldTime: hold, MinAgg: true, Threads: true}, false)
		if err != nil {
			t.Logf("not tested: %s: %v", backend, err)
			continue
		}
		queue := &tee{Queue: l.Queue.(*quark.Queue)}
		queues, open = append(queues, queue), append(open, recorder.New(recorder.NewListener(queue, hold, false), nil, true))
	}
	recorder.StartAll(open)
	var outcomes []*scenario.Outcome
	for _, s := range selected {
		if s.Early || s.Unread {
			continue
		}
		run, err := scenario.Start(s)
		if err != nil {
			t.Fatal(err)
		}
		o, err := recorder.RunScenarios(run, open, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		outcomes = append(outcomes, o...)
	}
	_, err = recorder.WaitDelivered(recorder.Listeners(open), outcomes, time.Minute)
	if err := errors.Join(err, recorder.PauseAll(open)); err != nil {
		t.Fatal(err)
	}
	for i, queue := range queues {
		t.Run(queue.Backend(), func(t *testing.T) {
			own := open[i].Delivered()
			if _, err := open[i].Close(); err != nil {
				t.Fatal(err)
			}
			compareJSON(t, own, queue, outcomes)
		})
	}
}

func compareJSON(t *testing.T, own *score.Delivered, queue *tee, outcomes []*scenario.Outcome) {
	m := quarkMon(t, "true")
	// The format has no lines of these kinds.
	counted := *own
	withoutThem := *own.Table
	const others = engine.EventNSChange | engine.EventCgroupChange | engine.EventReparent
	for k := range withoutThem.Kinds {
		if others.Has(engine.Kind(k).Events()) {
			withoutThem.Kinds[k] = engine.Capability{}
		}
	}
	counted.Table = &withoutThem
	counted.Single = slices.DeleteFunc(slices.Clone(own.Single), func(s score.Seen) bool { return others.Has(s.Events) })
	own = &counted
	printed := *own
	table := m.Table
	table.Kinds = own.Table.Kinds
	for f := range table.Fields {
		if table.Fields[f].Origin != engine.OriginNone {
			table.Fields[f] = own.Table.Fields[f] // formats have no reasons
		}
	}
	printed.Single, printed.Table, printed.Foreign = nil, &table, &m.Foreign
	m.Foreign.Unchanged = queue.Capabilities().SameIDs || m.Foreign.Unchanged
	d := m.Decoder()
	for i, line := range queue.lines {
		var out monitor.Output
		if err := d.Decode(line, queue.at[i], &out); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		for _, ev := range out.Events {
			printed.Single = append(printed.Single, score.SeenOf(ev, queue.at[i]))
		}
	}
	for _, o := range outcomes {
		a, b := score.Compute(own, o.Processes), score.Compute(&printed, o.Processes)
		for f := range a.Fields {
			if table.Fields[f].Origin == engine.OriginNone {
				a.Fields[f], b.Fields[f] = score.Counts{}, score.Counts{}
			}
		}
		findings := [][]string{a.Findings, b.Findings} // including fields that JSON lacks
		a.Findings, b.Findings = nil, nil
		a.Delays, b.Delays = nil, nil
		if diff := cmp.Diff(a, b); diff != "" {
			t.Errorf("%s: difference (-events +JSON):\n%s\n%q", o.Name, diff, findings)
		}
	}
}

// buildQuarkMon returns the path of a quark-mon, or an error where there is no compiler.
func buildQuarkMon(t *testing.T) (string, error) {
	path := filepath.Join(t.TempDir(), "quark-mon")
	if out, err := exec.Command("go", "build", "-o", path, "../cmd/quark-mon").CombinedOutput(); err != nil {
		return "", fmt.Errorf("quark-mon cannot be built: %w\n%s", err, out)
	}
	return path, nil
}

// checkQuarkMon checks that quark-mon, run as a monitor, has a perfect score.
func checkQuarkMon(t *testing.T, m *monitor.Monitor, r *Report) {
	if first(r.Backends, func(b *Backend) bool { return b.Name == "ebpf" }) == nil {
		t.Skip("eBPF does not work here")
	}
	if len(r.Monitors) != 1 {
		t.Fatalf("not run: %v", r.Absent)
	}
	got := r.Monitors[0]
	t.Logf("%s", &got.Total)
	for _, note := range got.Notes {
		t.Error(note)
	}
	for _, s := range got.Scenarios {
		if s.Skip == "" && !s.Perfect() {
			t.Errorf("%s: got %s\n%q", s.Scenario, &s.Score, s.Findings)
		}
	}
	for f := range got.Total.Fields {
		if m.Table.Fields[f].Origin != engine.OriginNone && got.Total.Fields[f].Right == 0 {
			t.Errorf("field %s has no right value", engine.Field(f))
		}
	}
}

// accountVariable is the environment variable that permits process accounting, which would change
// the written bytes seen by other tests.
const accountVariable = "QUARK_TEST_ACCT"

// TestFaultsOfOthers checks that the known defects of other monitors show in the documented
// scenarios.
func TestFaultsOfOthers(t *testing.T) {
	if os.Getuid() != 0 || testing.Short() {
		t.Skip("needs root, and runs the monitors that are installed")
	}
	field := func(f engine.Field) func(*score.Score) int {
		return func(s *score.Score) int { return s.Fields[f].Wrong }
	}
	stamp := func(s *score.Score) int { return s.Stamp.Wrong }
	for _, c := range []struct {
		monitor  string
		scenario string // the scenario that shows a known defect
		what     string
		wrong    func(*score.Score) int // the number of its occurrences
	}{
		{"forkstat", "leader-first", "the leader's status", field(engine.FieldExit)},
		{"execsnoop", "fork-exec-exit", "the path for the first argument", field(engine.FieldArgs)},
		{"exitsnoop", "leader-first", "the leader's status", field(engine.FieldExit)},
		{"bpftrace", "leader-first", "the leader's end", stamp},
		{"bpftrace", "clone-parent", "who forked for the parent", field(engine.FieldPPID)},
		{"perf", "leader-first", "the leader's end", stamp},
		{"perf", "setuid", "an end at an exec", func(s *score.Score) int { return s.Duplicates }},
		{"strace", "script", "the call's arguments", field(engine.FieldArgs)},
		{"audit", "clone-parent", "who forked for the parent", field(engine.FieldPPID)},
		{"audit", "vfork", "the fork after what the child did", func(s *score.Score) int { return s.Inversions }},
		{"acct", "leader-first", "the leader's status", field(engine.FieldExit)},
	} {
		t.Run(c.monitor+" "+c.scenario, func(t *testing.T) {
			m, err := monitor.Find(c.monitor)
			if err != nil {
				t.Fatal(err)
			}
			if m.Accounting && os.Getenv(accountVariable) == "" {
				t.Skipf("accounting changes the written bytes of all processes: set %s=1 to run it", accountVariable)
			}
			r, err := RunScenarios(Options{Backends: backends.CNProc, Monitors: []*monitor.Monitor{m}, Scenarios: []string{c.scenario}})
			if err != nil {
				t.Skip(err)
			}
			if len(r.Monitors) == 0 {
				t.Skip(r.Absent)
			}
			s := &r.Monitors[0].Total
			t.Logf("%s %q", s, r.Monitors[0].Notes)
			if c.wrong(s) == 0 {
				t.Errorf("known defect not found: %s", c.what)
			}
		})
	}
}

// TestFailingMonitors checks that a failing monitor is reported in one line, and that the results
// of the others remain.
func TestFailingMonitors(t *testing.T) {
	if os.Getuid() != 0 || testing.Short() {
		t.Skip("needs root, and builds quark-mon")
	}
	thorough.Skip(t, "waits until monitors have failed")
	path, err := buildQuarkMon(t)
	if err != nil {
		t.Skip(err)
	}
	events := path + " -c -j -g -s --hold-time 50ms"
	var list []*monitor.Monitor
	for _, command := range []string{"echo rubbish; sleep 1000", "no-such-program", "(" + events + " -d 2s; exit 3)", events} {
		m := quarkMon(t, command)
		m.Name = command
		list = append(list, m)
	}
	r, err := RunScenarios(Options{Backends: backends.CNProc, Monitors: list, Scenarios: []string{"fork-exec-exit", "cwd-*"}, Repeats: 12,
		MonitorPatience: 8 * time.Second}) // the first monitor needs all of it
	if err != nil {
		t.Skip(err)
	}
	if len(r.Monitors) != 1 || len(r.Absent) != 3 {
		t.Fatalf("got %d monitors that ran to the end; failed: %q", len(r.Monitors), r.Absent)
	}
	for i, want := range []string{"all [0-9]+ lines are invalid", "exited with 127: .*not found", "after [0-9]+ events: the monitor ended.*; the monitor exited with 3"} {
		if ok, err := regexp.MatchString(want, r.Absent[i].Reason); !ok || err != nil || strings.Contains(r.Absent[i].Reason, "\n") {
			t.Errorf("%q, not %q", r.Absent[i].Reason, want)
		}
	}
	if s := &r.Monitors[0].Total; s.Seen == 0 || len(r.Backends) != 1 {
		t.Errorf("got %s", s)
	}
}

// TestReadWhileMonitorsStart checks that queues are read while monitors start, so that they do not
// overflow before the scenarios.
func TestReadWhileMonitorsStart(t *testing.T) {
	if os.Getuid() != 0 || testing.Short() {
		t.Skip("needs root, and fills the largest buffer of a backend")
	}
	thorough.Skip(t, "fills the largest buffer of a backend with the events of 24,000 processes")
	over := filepath.Join(t.TempDir(), "over")
	m := quarkMon(t, "while ! [ -e "+over+" ]; do sleep 0.1; done; exit 3")
	o := Options{Backends: backends.CNProc, Monitors: []*monitor.Monitor{m}, Scenarios: []string{"fork-exec-exit"},
		MonitorPatience: 2 * time.Minute} // longer than the storm
	storm := make(chan error, 1)
	o.Progress = func(step string) {
		if !strings.HasPrefix(step, "the start of ") {
			return
		}
		// The socket has room for some 40,000 messages. A process makes three or more.
		load := scenario.Storm{Processes: 24_000, Workers: 2, Rate: 4000}
		go func() {
			_, _, err := load.Run(time.Minute, nil)
			storm <- errors.Join(err, os.WriteFile(over, nil, 0o600))
		}()
	}
	r, err := RunScenarios(o)
	if err != nil {
		t.Skip(err)
	}
	if err := <-storm; err != nil {
		t.Fatal(err)
	}
	if len(r.Absent) != 1 || !strings.Contains(r.Absent[0].Reason, "exited with 3") {
		t.Errorf("the monitor did not end after the storm: %v", r.Absent)
	}
	b := r.Backends[0]
	if s := &b.Total; s.Seen != s.Truth || s.Truth == 0 {
		t.Errorf("got %s; %d lost: %s", s, b.Lost, b.Cause)
	}
}
