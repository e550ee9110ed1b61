package league

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/fidelity"
	"github.com/quark-linux/quark/fidelity/bench"
	"github.com/quark-linux/quark/fidelity/monitor"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/internal/golden"
)

func TestMain(m *testing.M) {
	fidelity.Main()
	os.Exit(m.Run())
}

// example is a run with something of everything.
func example(kernel string) (r *Run, lines string) {
	var out bytes.Buffer
	g := &game{run: new(Run), out: json.NewEncoder(&out)}
	r = g.run
	r.Machine = Machine{
		Kernel: kernel, Arch: "amd64", CPUs: 2, Model: "a <processor>", Memory: 4 << 20, Version: "v1", Time: time.Date(2026, 11, 24, 22, 0, 0, 0, time.UTC),
		Top: 9000, Busy: 0.02, Repeats: 6,
		Participants: []Participant{
			{Name: "ebpf", Own: true, Kinds: []string{"fork", "exec", "exit"}},
			{Name: "procpoll", Own: true, Kinds: []string{"fork", "exit"}},
			{Name: "other", Version: "other 1.0", Kinds: []string{"exec"}, Silent: true, Unstamped: true},
		},
	}
	put := func(l line) {
		if err := g.put(l); err != nil {
			panic(err)
		}
	}
	put(line{Machine: &r.Machine})
	for repeat := range 6 {
		for i, p := range r.Participants {
			row := Row{
				Participant: p.Name, Repeat: repeat, Load: Rate, Rate: 1000, Workers: 2, Lives: 500, Offered: 990 + float64(repeat), Truth: 1500, Seen: 1500 - i*(7+repeat),
				CPU: time.Duration(40+repeat) * time.Millisecond, Judge: 5 * time.Millisecond, RSS: 20 << 10, Ready: 300 * time.Millisecond,
				DelayP50: 100 * time.Millisecond, DelayP99: 120 * time.Millisecond, DelayMax: time.Second,
			}
			if p.Name == "procpoll" {
				row.Lost = uint64(row.Missing()+1) / 2 // tasks
			}
			put(line{Row: &row})
			full := row
			full.Load, full.Rate, full.Offered, full.Alone = Full, 0, 8000, 8800
			put(line{Row: &full})
			full.Load = Stopped
			put(line{Row: &full})
			for k, lifetime := range scenario.Lifetimes {
				put(line{Row: &Row{
					Participant: p.Name, Repeat: repeat, Load: Lifetime, Workers: 2, Lifetime: lifetime, Lives: 20, Offered: 140, Truth: 60, Seen: 60,
					Known: 160 - i*(20-k), Wanted: 160, Stale: i,
				}})
			}
		}
		put(line{Row: &Row{Participant: "ebpf", Repeat: repeat, Load: Programs, Rate: 1000, Workers: 2, Lives: 400, Programs: 2 * time.Millisecond}})
		put(line{Row: &Row{Participant: "ebpf", Repeat: repeat, Load: Counted, Rate: 1000, Workers: 2, Lives: 400, CPU: 2 * time.Millisecond}})
	}
	for _, p := range r.Participants {
		f := Finding{Participant: p.Name, Scenario: "leader-first", Truth: 10, Seen: 10}
		if p.Name == "other" {
			f.Bad, f.Fault, f.Count, f.Findings = 3, "the leader's status", 2, []string{`7: exit is "<b>"`}
		}
		put(line{Finding: &f})
	}
	put(line{Filter: []bench.Filtered{{Way: "exits", CPU: 50 * time.Millisecond, Messages: 8000, Published: 70 * time.Millisecond}, {Way: "quark: exits", CPU: 60 * time.Millisecond, Messages: 8000}}, FilterOf: 8000})
	put(line{Note: &fidelity.Absence{Backend: "other", Reason: "left running, and killed: process 7 (other)"}})
	put(line{Absent: &fidelity.Absence{Backend: "perf", Reason: "perf is not installed: apt-get install linux-perf"}})
	return r, out.String()
}

// What was measured is in the lines, among which others may be, and in no other way.
func TestLines(t *testing.T) {
	one, first := example("6.1")
	two, second := example("6.12")
	list, err := Read(strings.NewReader("{\"type\":\"hello\"}\nnoise\n" + first + "\n" + second))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]*Run{one, two}, list); diff != "" {
		t.Error(diff)
	}
	// A guest that was killed leaves what it had.
	list, err = Read(strings.NewReader(strings.Join(strings.SplitAfter(first, "\n")[:4], "")))
	if err != nil || len(list) != 1 || len(list[0].Rows) != 3 {
		t.Errorf("%+v, %v", list, err)
	}
	for text, want := range map[string]string{
		"":                                  "there is no league in it: quark-fidelity league -o FILE writes one",
		first[strings.Index(first, "\n"):]:  "line 2: no line before it says what the machine of ",
		"\n{\"type\":\"league\",\"row\":7}": "line 2: json: cannot unmarshal number",
	} {
		if _, err := Read(strings.NewReader(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, not %q", err, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	_, text := example("6.1")
	f.Add([]byte(text))
	f.Add([]byte(`{"type":"league","run":"a","machine":{"participants":[{"name":"x"}]}}` + "\n" + `{"type":"league","run":"a","row":{"participant":"x","load":"full","workers":-1,"offered":1e308}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := Read(bytes.NewReader(text))
		if err != nil {
			return
		}
		// What was read can be shown.
		if err := errors.Join(Print(io.Discard, list), CSV(io.Discard, list), Page(io.Discard, list)); err != nil {
			t.Error(err)
		}
	})
}

func TestGolden(t *testing.T) {
	r, _ := example("6.1")
	var table, text, markdown bytes.Buffer
	if err := errors.Join(CSV(&table, []*Run{r}), Print(&text, []*Run{r}), Markdown(&markdown, []*Run{r})); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/league.csv", table.Bytes())
	golden.Compare(t, "testdata/league.txt", text.Bytes())
	golden.Compare(t, "testdata/league.md", markdown.Bytes())
}

func TestPage(t *testing.T) {
	one, _ := example("6.1")
	two, _ := example("6.12")
	empty := &Run{Machine: Machine{Kernel: "5.10", Participants: []Participant{{Name: "ebpf", Own: true}}}}
	var out bytes.Buffer
	if err := Page(&out, []*Run{one, two, empty}); err != nil {
		t.Fatal(err)
	}
	page := out.String()
	for _, want := range []string{
		"a &lt;processor&gt;", "&lt;b&gt;", "the leader&#39;s status", "prefers-color-scheme: dark", "not run: perf: perf is not installed",
		"left running, and killed", `class="bad"`, `class="heat" style="--shade:100"`, "does not count", "Linux 5.10", "other: other 1.0", "published for 8000",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, never := range []string{"<b>", "src=\"", "href=\"", "NaN", "Inf", "ZgotmplZ", "%!"} {
		if strings.Contains(page, never) {
			t.Errorf("the page has %q", never)
		}
	}
	drawings := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(page, -1)
	if len(drawings) != 2*6 {
		t.Errorf("%d drawings, want two of quark, two of others and two of the cost of each run with rows", len(drawings))
	}
	for _, svg := range drawings {
		for d := xml.NewDecoder(strings.NewReader(svg)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A few repeats, or not as many as were wanted, are said to be so.
func TestHeadIsHonest(t *testing.T) {
	r, _ := example("6.1")
	for repeats, want := range map[int]string{
		6: "an interval that has the median with 97 %", 5: "with all of them in brackets, which have the median with 94 % (6 were wanted)",
		1: "One repeat, so that nothing says how far these figures vary",
	} {
		some := *r
		some.Rows = nil
		for _, w := range r.Rows {
			if w.Repeat < repeats {
				some.Rows = append(some.Rows, w)
			}
		}
		if text := strings.Join(some.Head(), "\n"); !strings.Contains(text, want) {
			t.Errorf("%d repeats: %q is not in %s", repeats, want, text)
		}
	}
}

// A league of a backend and of monitors that fail: each of these is told in one line, nothing of
// them is left, and the others' figures stand.
func TestMeasure(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	good, err := monitor.Backend("cnproc")
	if err != nil {
		t.Skip(err)
	}
	self := good.Programs[0]
	fake := func(name, script string) *monitor.Monitor {
		m := *good
		m.Name, m.Programs, m.Arguments = name, []string{"sh"}, []string{"-c", script, self}
		return &m
	}
	missing := fake("missing", "")
	missing.Programs, missing.Package = []string{"no-such-program"}, "a-package"
	var out bytes.Buffer
	r, err := Measure(Options{
		Backends: backends.CNProc, Quick: true, Patience: 3 * time.Second, Out: &out,
		Monitors: []*monitor.Monitor{
			fake("rubbish", "echo rubbish; sleep 1000"),
			fake("feature", "echo no such tracepoint >&2; exit 3"),
			fake("dies", `sleep 1000 & "$0" & sleep 1.5; kill -9 $!; exit 3`),
			fake("hangs", `"$0" & sleep 1.5; kill -STOP $!; sleep 1000`),
			missing,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	again, err := Read(&out)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]*Run{r}, again); diff != "" {
		t.Error(diff)
	}
	for _, l := range []string{Rate, Full, Lifetime, Stopped, Counted} {
		rows := r.rows("cnproc", func(w *Row) bool { return w.Load == l })
		if len(rows) == 0 {
			t.Errorf("no row of %s: %v", l, r.Absent)
		}
		for _, w := range rows {
			if w.Lives == 0 || w.Offered <= 0 || l != Counted && w.Truth == 0 || l == Full && w.Alone <= 0 || l != Lifetime && w.CPU <= 0 {
				t.Errorf("not measured: %+v", w)
			}
			most := 25.0
			if l == Lifetime { // beside storms of other tests it is up to 53, one that spins 100
				most = 80
			}
			if share := judgeShare(w); share > most {
				t.Errorf("the judge took %.0f %% of a CPU at %.0f lives a second", share, w.Offered)
			}
			if w.Missing() > int(w.Lost) && l != Lifetime || w.Extra+w.Wrong+w.Stale > 0 {
				t.Errorf("not true: %+v", w)
			}
		}
	}
	for name, want := range map[string]string{
		"rubbish": "^in repeat 1: of 1 lines none makes sense",
		"feature": "^in repeat 1: .*it exited with 3: no such tracepoint$",
		"dies":    "^in repeat 1: after [0-9]+ events: .*it ended.*it exited with 3.*left running, and killed: process [0-9]+ .sleep.",
		"hangs":   "^in repeat 1: after [0-9]+ events: .*it hangs: after 3s .*",
		"missing": "^no-such-program is not installed: apt-get install a-package$",
	} {
		if !said(r.Absent, name, want) {
			t.Errorf("%s: not %q in %q", name, want, r.Absent)
		}
	}
}

func said(list []fidelity.Absence, name, want string) bool {
	for _, a := range list {
		if a.Backend == name && regexp.MustCompile(want).MatchString(a.Reason) && !strings.Contains(a.Reason, "\n") {
			return true
		}
	}
	return false
}
