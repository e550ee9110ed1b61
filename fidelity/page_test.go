package fidelity

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/score"
)

// example is a report with all kinds of results.
func example(kernel string) *Report {
	r := newReport()
	r.Kernel = kernel
	b := &Backend{Name: "ebpf", Fields: map[string]Capability{"comm": {Origin: "kernel", Via: "<task>"}}}
	perfect := &Score{Scenario: "fine"}
	perfect.Truth, perfect.Seen = 10, 10
	perfect.Fields[engine.FieldComm] = score.Counts{Right: 9, Unknown: 1}
	perfect.Delays = []uint64{0, 100, 1 << 21}
	bad := &Score{Scenario: "broken"}
	bad.Truth, bad.Seen = 10, 8
	bad.Fields[engine.FieldCwd] = score.Counts{Right: 9, Wrong: 1}
	bad.Findings = []string{`7: cwd is "<b>"`}
	skipped := &Score{Scenario: "impossible", Skip: "no such thing"}
	b.Scenarios = []*Score{perfect, bad, skipped}
	for _, s := range b.Scenarios {
		b.Total.Add(&s.Score)
	}
	b.Delay = spread(b.Total.Delays)
	r.Backends = []*Backend{b}
	other := &Monitor{Backend: Backend{Name: "other"}, Notes: []string{"left running, and killed: process 7 (other)"}}
	stale := &Score{Scenario: "fine"}
	stale.Truth, stale.Seen = 10, 7
	stale.Fields[engine.FieldComm] = score.Counts{Right: 6, Stale: 1}
	stale.Findings = []string{"7: comm is of another time"}
	other.Scenarios = []*Score{stale}
	other.Total.Add(&stale.Score)
	r.Monitors = []*Monitor{other}
	r.Absent = []Absence{{"kprobe", "no probes"}}
	return r
}

// Defects of other monitors are printed, but do not count as defects.
func TestPrintMonitors(t *testing.T) {
	r := example("6.1")
	var b strings.Builder
	r.Print(&b)
	for _, want := range []string{
		"missing ", "85.7 % right 14.3 % STALE", "other: left running, and killed: process 7 (other)",
		"other, fine: 7 of 10 events seen", "  7: comm is of another time",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, b.String())
		}
	}
	for _, d := range r.Defects() {
		if strings.HasPrefix(d, "other") {
			t.Errorf("got defect %s, want none", d)
		}
	}
}

func TestReportThroughFile(t *testing.T) {
	whole := example("6.1")
	b, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	// The first report is an earlier, less complete report of the same run.
	less := *whole
	less.Absent = nil
	first, _ := json.Marshal(less)
	list, err := decode(strings.NewReader("{\"type\":\"hello\"}\nnoise\n" + string(first) + "\n" + string(b) + "\n"))
	if err != nil || len(list) != 1 {
		t.Fatalf("got %d reports, error %v", len(list), err)
	}
	again, err := json.Marshal(list[0])
	if err != nil || !bytes.Equal(b, again) {
		t.Errorf("wrote\n%s\nread\n%s (error %v)", b, again, err)
	}
}

func TestPageHoldsEverything(t *testing.T) {
	var out bytes.Buffer
	if err := Page(&out, []*Report{example("6.1.5-x"), example("6.12.3-x")}); err != nil {
		t.Fatal(err)
	}
	page := out.String()
	for _, want := range []string{
		"6.1.5\nebpf", "6.12.3\nebpf", `class="bad"`, "80.0 % seen", "10.0 % wrong", "skipped", "no such thing",
		"not run: kprobe: no probes", `<a href="#broken">`, `id="broken"`, "&lt;task&gt;", "&lt;b&gt;", "0.0 ms / 2.1 ms",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, never := range []string{"<b>", "src=\"", "href=\"h", "NaN", "ZgotmplZ"} {
		if strings.Contains(page, never) {
			t.Errorf("the page has %q", never)
		}
	}
}

func TestDefectsAreNamed(t *testing.T) {
	r := example("6.1")
	if d := strings.Join(r.Defects(), "\n"); !strings.Contains(d, "ebpf, broken: 8 of 10 events seen") || strings.Contains(d, "fine") {
		t.Errorf("got defects: %s", d)
	}
}

func TestSpread(t *testing.T) {
	s := spread([]uint64{0, 1, 2, 3, 1000})
	if s.N != 5 || s.P50 != 2 || s.Max != 1000 {
		t.Errorf("got spread %+v", s)
	}
	if s := spread(nil); s.N != 0 {
		t.Errorf("spread without values: got %+v", s)
	}
}
