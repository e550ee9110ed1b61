package fuzz

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/fidelity/score"
	"github.com/quark-linux/quark/fidelity/script"
	"github.com/quark-linux/quark/internal/thorough"
)

// defectEnv injects a defect into the monitors of trials.
const defectEnv = "QUARK_FUZZ_DEFECT"

func TestMain(m *testing.M) {
	if os.Getenv(defectEnv) != "" {
		damage = wrongNames
	}
	Main()
	os.Exit(m.Run())
}

func wrongNames(w *score.Delivered) {
	for i := range w.Single {
		if s := &w.Single[i]; s.Events.Has(engine.EventFork) && !s.Thread {
			s.Process.Comm += "?"
		}
	}
}

func asRoot(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
}

func notShort(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute, and several minutes in a guest")
	}
}

// left returns the temporary directories that fuzz runs left behind.
func left(t *testing.T) []string {
	list, err := filepath.Glob(filepath.Join(os.TempDir(), "quark-fuzz-*"))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// An unwritable directory is reported before any script runs, not after a defect.
func TestNoDirectory(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "missing"), file, "/proc"} {
		r, err := Run(t.Context(), Options{Seed: 1, For: time.Millisecond, Batch: 1, Dir: path})
		if err == nil || !strings.Contains(err.Error(), path) || r != nil {
			t.Errorf("%s: %v, %v", path, r, err)
		}
	}
	if err := writable(dir); err != nil {
		t.Error(err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
		t.Errorf("got %v, %v", list, err)
	}
}

// A run scores processes, and finds no defect if no event is lost. The proc connector has defects
// after many losses; the log shows them.
func TestRun(t *testing.T) {
	asRoot(t)
	notShort(t)
	for name, faults := range map[string]bool{"without faults": false, "with faults": true} {
		t.Run(name, func(t *testing.T) {
			r, err := Run(t.Context(), Options{Seed: 1, For: time.Second, Faults: faults, Batch: 50, Dir: t.TempDir(), Progress: t.Output()})
			if err != nil {
				t.Fatal(err)
			}
			if f := r.Found; f != nil {
				report := t.Errorf
				if r.Lost > 0 {
					report = t.Logf
				}
				report("%s: got a defect in %d of %d runs with faults %q, want none:\n%s\n%s", f.Backend, f.Again, f.Of, f.Faults, f.Script, strings.Join(f.Findings, "\n"))
			}
			if r.Processes < 50 || len(r.Operations) == 0 {
				t.Error(r)
			}
		})
	}
}

// Scripts of fixed defects must show no defect.
func TestFound(t *testing.T) {
	asRoot(t)
	paths, err := filepath.Glob("testdata/*.script")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	times := thorough.Rounds(5, 20)
	if scenario.InGuest() {
		times = 3 // in a guest each run takes a second
	}
	// A file can name a backend that is not run by default, because it is slow or other tests
	// disturb it. Scripts with the same backends run together, as the start takes longer than
	// the run.
	together := make(map[backends.Set][]string)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		set := backends.All
		for line := range strings.Lines(string(text)) {
			if name, ok := strings.CutPrefix(line, backendMark); ok {
				one, err := backends.Parse(strings.TrimSpace(name))
				if err != nil {
					t.Fatal(err)
				}
				set |= one
			}
		}
		together[set] = append(together[set], path)
	}
	for set, paths := range together {
		t.Run(strings.Join(set.Names(), "+"), func(t *testing.T) {
			list, err := Rerun(paths, times, Options{Backends: set})
			if err != nil {
				t.Fatal(err)
			}
			for i, again := range list {
				for backend, n := range again.Defects {
					t.Errorf("%s: %s had a defect in %d of %d runs: %s", paths[i], backend, n, times, strings.Join(again.Findings[backend], "\n"))
				}
			}
		})
	}
}

// Run finds, shrinks and writes a defect between the source and the scorer. A rerun shows it again.
func TestDefectIsFound(t *testing.T) {
	asRoot(t)
	notShort(t)
	thorough.Skip(t, "searches for a defect, shrinks its script and runs it again")
	t.Setenv(defectEnv, "1")
	t.Setenv("TMPDIR", t.TempDir())
	o := Options{Seed: 1, For: time.Minute, Dir: t.TempDir(), Batch: 10, Progress: t.Output()}
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	f := r.Found
	if f == nil {
		t.Fatal("the defect was not found")
	}
	b, err := os.ReadFile(f.Path)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", b)
	if f.Again < f.Of/2 || strings.Count(f.Script.String(), "\n") > 2 {
		t.Errorf("got script %s with the defect in %d of %d runs, want at most 2 lines and half of the runs", f.Script, f.Again, f.Of)
	}
	if !strings.Contains(string(b), "# Found by quark-fidelity fuzz --seed 1,") || !strings.Contains(string(b), ": comm is \"") {
		t.Error("the file lacks the finding")
	}
	list, err := Rerun([]string{f.Path}, 10, o)
	if err != nil {
		t.Fatal(err)
	}
	if list[0].Defects[f.Backend] == 0 {
		t.Errorf("the rerun does not show the defect: got %+v", list[0])
	}
	if list := left(t); len(list) > 0 {
		t.Errorf("left behind: %q", list)
	}
}

// If a run fails during shrinking, the current script is still written.
func TestShrinkingFails(t *testing.T) {
	o := Options{Seed: 7, Dir: t.TempDir(), Progress: io.Discard}
	f := &fuzzer{Options: o, dir: filepath.Join(o.Dir, "missing")}
	s, err := script.Parse("process\n  fork\n    yield\n")
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.shrinkDefect([]*script.Script{s}, Faults{}, defect{Backend: "cnproc", Findings: []string{"659: EXEC was not seen"}}, 3)
	path := filepath.Join(o.Dir, "fuzz-7-3.script")
	if err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got error %v, want it to contain %s", err, path)
	}
	got, err := load(path)
	if err != nil || got.script.String() != s.String() {
		t.Errorf("got %v, %v", got.script, err)
	}
}

// Shrinking keeps the kind of the defect.
func TestKindOfDefect(t *testing.T) {
	f := Finding{kind: kindOf("17: EXIT: cmdline is \"a\\n\" (reported), not \"b\"")}
	for text, want := range map[string]bool{
		`234: EXIT: cmdline is "c 1" "d" (cached), not "e"`: true,
		`17: EXIT: cwd is "a" (reported), not "b"`:          false,
		`17: EXEC: cmdline is "a" (reported), not "b"`:      false,
		`17: EXIT: cmdline is unknown`:                      false,
		`17: EXIT at 1234 did not happen`:                   false,
	} {
		if got := f.same(defect{Findings: []string{"another", text}}); got != want {
			t.Errorf("%s: got %v", text, got)
		}
	}
}

func TestFaultsAsText(t *testing.T) {
	const text = "drain=1.5s length=3 load=2 offline=1ms+1s open=10ms ring=4096 stop=20ms+300ms"
	f, err := ParseFaults(text)
	if err != nil || f.String() != text {
		t.Errorf("got %v, %v", f, err)
	}
	var one []string
	for _, less := range f.Smaller() {
		one = append(one, less.String())
	}
	if len(one) != 7 || slices.Contains(one, text) || one[6] != strings.TrimSuffix(text, " stop=20ms+300ms") {
		t.Errorf("got %q", one)
	}
	for _, less := range (Faults{}).Smaller() {
		t.Error(less)
	}
	for _, wrong := range []string{"ring", "ring=x", "stop=1s", "flood=1"} {
		if _, err := ParseFaults(wrong); err == nil {
			t.Errorf("invalid faults %q are accepted", wrong)
		}
	}
}
