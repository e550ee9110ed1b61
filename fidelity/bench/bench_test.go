package bench

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/fidelity"
	"github.com/quark-linux/quark/fidelity/monitor"
	"github.com/quark-linux/quark/internal/golden"
)

func TestMain(m *testing.M) {
	fidelity.Main()
	os.Exit(m.Run())
}

// recorded returns a recorded benchmark: two backends and two monitors, two repeats.
func recorded(t testing.TB) (text []byte) {
	t.Helper()
	text, err := os.ReadFile("testdata/bench.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestPrint(t *testing.T) {
	results, err := ReadFiles([]string{"testdata/bench.jsonl"})
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := Print(&text, results); err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/bench.txt", text.Bytes())
}

// The page has the same tables and well-formed drawings, even for a run without rows.
func TestPage(t *testing.T) {
	results, err := Read(bytes.NewReader(recorded(t)))
	if err != nil {
		t.Fatal(err)
	}
	empty := &Result{Machine: Machine{Kernel: "5.10", Participants: []Participant{{Name: "<ebpf>"}}}, Notes: []string{"<perf>: not run"}}
	var out bytes.Buffer
	if err := Page(&out, append(results, empty)); err != nil {
		t.Fatal(err)
	}
	page := out.String()
	for _, want := range []string{"Linux 5.10", "&lt;perf&gt;: not run", `class="bad" title="fewer than were missing in 2 of 2 repeats">not counted`,
		`class="heat" style="--shade:100"`, "forkstat: forkstat, version 0.03.01", "Cost of a process at 1000 processes a second"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, never := range []string{"NaN", "Inf", "ZgotmplZ", "%!"} {
		if strings.Contains(page, never) {
			t.Errorf("the page has %q", never)
		}
	}
	drawings := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(page, -1)
	if len(drawings) != 2 {
		t.Errorf("got %d drawings, want CPU time and workload", len(drawings))
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

// Read skips other lines between the lines of runs, and returns the rows of a killed run.
func TestRead(t *testing.T) {
	first := string(recorded(t))
	second := strings.ReplaceAll(first, "6.18.44", "6.1")
	list, err := Read(strings.NewReader("{\"type\":\"hello\"}\nnoise\n" + first + "\n" + second))
	if err != nil || len(list) != 2 {
		t.Fatalf("got %d results, error %v", len(list), err)
	}
	if list[1].Kernel != "6.1" || len(list[0].Rows) != len(list[1].Rows) || len(list[0].Notes) != 1 {
		t.Errorf("got %+v", list)
	}
	list, err = Read(strings.NewReader(strings.Join(strings.SplitAfter(first, "\n")[:4], "")))
	if err != nil || len(list) != 1 || len(list[0].Rows) != 3 {
		t.Errorf("got %+v, %v", list, err)
	}
	for text, want := range map[string]string{
		"":                                 "the file has no benchmark: quark-fidelity bench -o writes one",
		first[strings.Index(first, "\n"):]: "line 2: the machine of run ",
		"\n{\"type\":\"bench\",\"row\":7}": "line 2: json: cannot unmarshal number",
	} {
		if _, err := Read(strings.NewReader(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(recorded(f))
	f.Add([]byte(`{"type":"bench","run":"a","machine":{"participants":[{"name":"x"}]}}` + "\n" + `{"type":"bench","run":"a","row":{"participant":"x","load":"full","offered":1e308}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := Read(bytes.NewReader(text))
		if err != nil {
			return
		}
		if err := errors.Join(Print(io.Discard, list), Page(io.Discard, list)); err != nil {
			t.Error(err)
		}
	})
}

// A note is shown once, even if a number in it differs between repeats.
func TestNotes(t *testing.T) {
	r := new(Result)
	for _, note := range []string{"a: it lost 5 times", "a: it lost 7 times", "a: it lost", "a: it lost 7 times", "b: it lost 5 times"} {
		r.add(line{Note: note})
	}
	if len(r.Notes) != 3 {
		t.Errorf("got %q", r.Notes)
	}
}

func TestEstimate(t *testing.T) {
	if got := estimateOf(nil).String(); got != "-" {
		t.Errorf("without values: got %s", got)
	}
	for n := 1; n <= 9; n++ {
		values := make([]float64, n)
		for i := range values {
			values[i] = rand.NormFloat64()
		}
		e := estimateOf(values)
		v := slices.Sorted(slices.Values(values))
		if below := slices.IndexFunc(v, func(x float64) bool { return x >= e.median }); below > n/2 || e.low != v[0] || e.high != v[n-1] {
			t.Errorf("%v: got %+v", v, e)
		}
	}
	for _, c := range []struct {
		values []float64
		want   string
	}{{[]float64{7}, "7"}, {[]float64{3, 1, 2}, "2 (1-3)"}, {[]float64{100, 99.99}, ">99.9 (>99.9-100)"}, {[]float64{0.01, 0}, "<0.05 (0-<0.05)"}} {
		if got := estimateOf(c.values).String(); got != c.want {
			t.Errorf("%v: got %s, want %s", c.values, got, c.want)
		}
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.01: "<0.05", 0.05: "0.05", 0.123: "0.12", 1: "1", 9.87: "9.9", 10: "10", 12.34: "12.3", 99.9: "99.9", 99.96: ">99.9", 100: "100", 1234.5: "1234",
	} {
		if got := number(v); got != want {
			t.Errorf("%v: got %q, want %q", v, got, want)
		}
	}
}

// A participant that reports fewer lost events than are missing is marked.
func TestLostCell(t *testing.T) {
	for _, c := range []struct {
		name   string
		silent bool
		rows   []*Row
		text   string
		class  string
	}{
		{"nothing missing", false, []*Row{{Events: 10, Seen: 10}}, "0", ""},
		{"all reported", false, []*Row{{Events: 10, Seen: 8, Lost: 2}, {Events: 10, Seen: 10}}, "10 (0-20)", ""},
		{"once too little", false, []*Row{{Events: 10, Seen: 8, Lost: 1}, {Events: 10, Seen: 10}}, "5 (0-10)", "bad"},
		{"more, of others", false, []*Row{{Events: 10, Seen: 8, Lost: 12}}, "120", ""},
		{"not counted", true, []*Row{{Events: 10, Seen: 8}}, "not counted", "bad"},
		{"not counted, nothing missing", true, []*Row{{Events: 10, Seen: 10}}, "not counted", ""},
		{"not measured", false, nil, "-", ""},
	} {
		if got := lostCell(&Participant{Silent: c.silent}, c.rows); got.Text != c.text || got.Class != c.class {
			t.Errorf("%s: got %+v", c.name, got)
		}
	}
}

// The ratio compares costs of the same repeat: a slow repeat does not change it.
func TestRatio(t *testing.T) {
	r := &Result{Machine: Machine{Participants: []Participant{{Name: "a"}, {Name: "b"}}}}
	for repeat, slow := range []time.Duration{1, 3, 2} {
		r.Rows = append(r.Rows,
			Row{Participant: "a", Repeat: repeat, Load: Rate, Rate: 1000, Processes: 1, CPU: 10 * slow},
			Row{Participant: "b", Repeat: repeat, Load: Rate, Rate: 1000, Processes: 1, CPU: 25 * slow},
			Row{Participant: "b", Repeat: repeat, Load: Rate, Rate: 4000, Processes: 1, CPU: 99})
	}
	if e := r.ratio("b"); e != (estimate{3, 2.5, 2.5, 2.5}) {
		t.Errorf("got %+v", e)
	}
	// In this repeat participant a has failed.
	r.Rows = append(r.Rows, Row{Participant: "b", Repeat: 3, Load: Rate, Rate: 1000, Processes: 1, CPU: 100})
	if e := r.ratio("b"); e.n != 3 {
		t.Errorf("got %+v", e)
	}
}

func TestHead(t *testing.T) {
	for repeats, want := range map[int]string{6: "Medians of 6 repeats", 5: "(6 were requested)", 1: "One repeat: "} {
		r := &Result{Machine: Machine{Repeats: 6}, Rows: []Row{{Repeat: repeats - 1}}}
		if text := strings.Join(r.Head(), "\n"); !strings.Contains(text, want) {
			t.Errorf("%d repeats: text lacks %q: %s", repeats, want, text)
		}
	}
}

// The rates are possible on the machine, and each load has enough processes.
func TestLoads(t *testing.T) {
	for _, c := range []struct {
		top   float64
		quick bool
		rates []int
	}{
		{9000, false, []int{1000, 4000}}, {100000, false, []int{1000, 4000, 16000, 64000}}, {90, false, []int{45}},
		{9000, true, []int{1000}}, {0, true, []int{1}},
	} {
		var rates []int
		kinds := make(map[Load]int)
		for _, l := range loads(c.top, 2, c.quick, "") {
			kinds[l.kind]++
			s := l.storm
			if l.kind == Rate {
				rates = append(rates, s.Rate)
			}
			if n := float64(s.Rate) * s.Length.Seconds(); s.Rate > 0 && n < 39 {
				t.Errorf("got a load of %v processes at %d a second", n, s.Rate)
			}
			if n := c.top * s.Length.Seconds(); s.Rate == 0 && c.top > 0 && n < 199 {
				t.Errorf("got a load of %v processes at full speed", n)
			}
		}
		if !slices.Equal(rates, c.rates) || kinds[Full]*kinds[Paused]*kinds[BPF]*kinds[Library] != 1 || kinds[Rare] == 0 != c.quick {
			t.Errorf("%v processes a second: got rates %v, loads %v", c.top, rates, kinds)
		}
	}
}

// TestMeasure runs a benchmark of a backend and of failing monitors: each monitor is listed with
// the reason, and the figures of the backend remain.
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
		Backends: backends.CNProc, Quick: true, Out: &out,
		Monitors: []*monitor.Monitor{
			fake("feature", "echo no such tracepoint >&2; exit 3"),
			fake("dies", `"$0" & sleep 0.3; kill -9 $!; exit 3`),
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
	if diff := cmp.Diff([]*Result{r}, again); diff != "" {
		t.Error(diff)
	}
	for _, l := range []Load{Rate, Full, Paused, Library} {
		rows := r.rows("cnproc", l, 0)
		if len(rows) == 0 {
			t.Errorf("no row of %s: notes %q", l, r.Notes)
		}
		for _, w := range rows {
			if w.Processes == 0 || w.Offered <= 0 || l != Library && w.Events == 0 || l == Full && w.Alone <= 0 || w.CPU <= 0 || w.RSS <= 0 || w.Ready <= 0 {
				t.Errorf("not measured: %+v", w)
			}
			if w.Missing() > int(w.Lost) || w.Wrong > 0 {
				t.Errorf("wrong row: %+v", w)
			}
		}
	}
	for _, want := range []string{
		"feature: no further turns after repeat 1: .*the monitor exited with 3: no such tracepoint$",
		"dies: no further turns after repeat 1: .*the monitor ended.*the monitor exited with 3",
		"missing: not run: no-such-program is not installed: apt-get install a-package$",
	} {
		if !slices.ContainsFunc(r.Notes, regexp.MustCompile("^"+want).MatchString) {
			t.Errorf("want %q in %q", want, r.Notes)
		}
	}
}
