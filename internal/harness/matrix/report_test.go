package matrix

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quark-linux/quark/internal/harness/record"
)

// sample is a run with one guest of each kind.
func sample() Results {
	return Results{
		Time: time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC), TookMS: 61000, Machine: "a machine",
		Guests: []Outcome{
			{Guest: "5.10-cloud-amd64", Kernel: Kernel{Name: "5.10-cloud-amd64"}, BTF: BTFPresent, Part: PartTests, State: record.Pass,
				Hello: &record.Hello{Kernel: "5.10.0-46", Features: map[string]bool{"btf": true, "bpf": false}},
				Cells: []Cell{
					{Result: record.Result{Test: "t_a", Backend: "ebpf", State: record.Pass, DurationMS: 1500, Log: "fine <b>"}},
					{Result: record.Result{Test: "t_a", Backend: "cnproc", State: record.Skip, Reason: "no uid"}},
				},
				TotalMS: 5000, Log: "guests/a/console.log", Repro: "krun a"},
			{Guest: "6.1-cloud-amd64", Kernel: Kernel{Name: "6.1-cloud-amd64"}, BTF: BTFHidden, Part: PartTests, State: record.Hang, Reason: "too late in t_b @ ebpf",
				Cells: []Cell{
					{Result: record.Result{Test: "t_a", Backend: "ebpf", State: record.Fail, Reason: "bad \x01"}, Repro: "krun t_a"},
					{Result: record.Result{Test: "t_b", Backend: "ebpf", State: record.Hang, Reason: "too late"}, Repro: "krun t_b"},
					{Result: record.Result{Test: "t_c", Backend: "ebpf", State: record.Lost, Reason: "not run: too late"}, Repro: "krun t_c"},
				},
				TotalMS: 60000, Log: "guests/b/console.log", Repro: "krun b", Tail: []string{"t_b @ ebpf: "}},
			{Guest: "7.3-cloud-amd64", Kernel: Kernel{Name: "7.3-cloud-amd64"}, BTF: BTFPresent, Part: PartTests, State: record.Crash, Reason: "WARNING: x",
				Cells: []Cell{{Result: record.Result{Test: "t_a", Backend: "none", State: record.Pass}}}, Console: []string{"WARNING: x", "BUG: y"}, Log: "guests/c/console.log"},
		},
	}
}

func TestCount(t *testing.T) {
	passed, failed, skipped := sample().Count()
	if passed != 2 || failed != 4 || skipped != 1 || sample().Good() {
		t.Errorf("got %d passed, %d failed, %d skipped", passed, failed, skipped)
	}
}

func TestTable(t *testing.T) {
	var b bytes.Buffer
	if err := sample().Table(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"5.10-cloud-amd64  5.10.0-46  present  quark-test  pass   1     -       0+1s    -     5.0\n",
		"6.1-cloud-amd64   ?          hidden   quark-test  hang   0/3   ",
		"6.1-cloud-amd64: hang: too late in t_b @ ebpf\n  fail: t_a @ ebpf: bad \x01\n    repro: krun t_a\n  hang: t_b @ ebpf: too late\n    repro: krun t_b\n  lost: 1 tests did not run\n  repro: krun b\n",
		"\n  | t_b @ ebpf: \n",
		"7.3-cloud-amd64: crash: WARNING: x\n  console: BUG: y\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, &b)
		}
	}
}

// TestHTML: the page names every cell, and escapes the output of guests.
func TestHTML(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "guests/a"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "guests/a/console.log"), bytes.Repeat([]byte("<script>\n"), 20000), 0o644); err != nil {
		t.Fatal(err)
	}
	b, err := sample().HTML(dir)
	if err != nil {
		t.Fatal(err)
	}
	page := string(b)
	for _, want := range []string{"fine &lt;b&gt;", `href="#g0-0"`, `id="g0-0"`, "bytes omitted", "<p>repro: krun t_b", "too late in t_b"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(page, "<script") || strings.Contains(page, "http") {
		t.Error("the page runs or loads something")
	}
}

func TestWriteAndLoad(t *testing.T) {
	dir := t.TempDir()
	if err := sample().Write(dir); err != nil {
		t.Fatal(err)
	}
	got, err := LoadResults(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sample(), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestMergeShards: shards are merged into one run, in its order. A guest of a shard without results
// is missing, and the run is reported as failed.
func TestMergeShards(t *testing.T) {
	guest := func(name string) Outcome {
		return Outcome{Guest: name, Kernel: Kernel{Name: name}, State: record.Pass, Part: PartTests,
			Cells: []Cell{{Result: record.Result{Test: "t_a", Backend: "ebpf", State: record.Pass}}}}
	}
	plan := []string{"a", "b", "c"}
	one := Results{Planned: plan, Guests: []Outcome{guest("c"), guest("a")}}
	two := Results{Planned: plan, Guests: []Outcome{guest("b")}}
	for _, tt := range []struct {
		name    string
		runs    []Results
		guests  string
		missing string
	}{
		{"whole", []Results{one, two}, "a b c", ""},
		{"other order", []Results{two, one}, "a b c", ""},
		{"one shard", []Results{one}, "a c", "b"},
		{"interrupted", []Results{one, {Planned: plan, Missing: []string{"b"}}}, "a c", "b"},
		{"run again", []Results{one, {Planned: plan, Missing: []string{"b"}}, two}, "a b c", ""},
		{"merged before", []Results{Merge([]Results{one}), two}, "a b c", ""},
		{"no plan", []Results{{Guests: []Outcome{guest("z"), guest("a")}}}, "z a", ""},
		{"another run", []Results{two, one, {Planned: []string{"y"}, Guests: []Outcome{guest("y")}}}, "a b c y", ""},
	} {
		all := Merge(tt.runs)
		var names []string
		for _, g := range all.Guests {
			names = append(names, g.Guest)
		}
		if got, missing := strings.Join(names, " "), strings.Join(all.Missing, " "); got != tt.guests || missing != tt.missing || all.Good() != (missing == "") {
			t.Errorf("%s: guests %q, missing %q, good %v; want %q, %q", tt.name, got, missing, all.Good(), tt.guests, tt.missing)
		}
	}

	all := Merge([]Results{one})
	if _, failed, _ := all.Count(); failed != 1 {
		t.Errorf("%d failed, want the missing guest", failed)
	}
	dir := t.TempDir()
	if err := all.Write(dir); err != nil {
		t.Fatal(err)
	}
	var table bytes.Buffer
	if err := all.Table(&table); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"table": "\nb: lost: this guest has not run\n", ResultsFile: `"missing": [`,
		HTMLFile: `<th>b<td><td><td><td class="bad">lost`,
	} {
		text := table.String()
		if name != "table" {
			b, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			text = string(b)
		}
		if !strings.Contains(text, want) {
			t.Errorf("%s lacks %q:\n%s", name, want, text)
		}
	}
}

// TestPlanOfShard: the missing guests of a shard are its own guests that have not run.
func TestPlanOfShard(t *testing.T) {
	var whole []Guest
	for _, name := range []string{"a", "b", "c"} {
		whole = append(whole, Guest{Kernel: Kernel{Name: name}, Part: PartTests, BTF: BTFPresent})
	}
	r := Results{Guests: []Outcome{{Guest: whole[2].Name()}}}
	r.Plan(whole, []Guest{whole[0], whole[2]})
	if diff := cmp.Diff([]string{whole[0].Name()}, r.Missing); diff != "" || len(r.Planned) != 3 {
		t.Errorf("planned %q, missing (-want +got):\n%s", r.Planned, diff)
	}
}
