package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quark-linux/quark/internal/harness/record"
)

func TestReadGoTest(t *testing.T) {
	for _, tt := range []struct {
		name   string
		stream string
		want   Counts
		shown  string // must be in the output
	}{
		{"pass, skip and fail", `
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestB"}
{"Action":"skip","Package":"p","Test":"TestB"}
{"Action":"run","Package":"p","Test":"TestC"}
{"Action":"output","Package":"p","Test":"TestC","Output":"c_test.go:3: bad\n"}
{"Action":"fail","Package":"p","Test":"TestC"}
{"Action":"fail","Package":"p"}
`, Counts{Passed: 1, Failed: 1, Skipped: 1, Names: []string{"p TestC"}}, "c_test.go:3: bad"},
		{"subtests count, their parent does not", `
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestA/x"}
{"Action":"run","Package":"p","Test":"TestA/y"}
{"Action":"pass","Package":"p","Test":"TestA/x"}
{"Action":"fail","Package":"p","Test":"TestA/y"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p"}
`, Counts{Passed: 1, Failed: 1, Names: []string{"p TestA/y"}}, ""},
		{"a parent that fails by itself", `
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestA/x"}
{"Action":"pass","Package":"p","Test":"TestA/x"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p"}
`, Counts{Passed: 1, Failed: 1, Names: []string{"p TestA"}}, ""},
		{"build failure", `
{"ImportPath":"p","Action":"build-output","Output":"x.go:1: syntax error\n"}
{"ImportPath":"p","Action":"build-fail"}
{"Action":"start","Package":"p"}
{"Action":"output","Package":"p","Output":"FAIL\tp [build failed]\n"}
{"Action":"fail","Package":"p","FailedBuild":"p"}
`, Counts{Failed: 1, Names: []string{"p"}}, "syntax error"},
		{"panic ends the package", `
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"panic: oh\n"}
{"Action":"fail","Package":"p"}
`, Counts{Failed: 1, Names: []string{"p"}}, "panic: oh"},
		{"no tests", `{"Action":"skip","Package":"p"}` + "\n", Counts{}, ""},
		{"not JSON", "go: something odd", Counts{}, "go: something odd"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			tests := newGoTests(&out)
			for _, b := range []byte(strings.TrimPrefix(tt.stream, "\n")) {
				tests.Write([]byte{b})
			}
			tests.end()
			if diff := cmp.Diff(tt.want, tests.Counts); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if !strings.Contains(out.String(), tt.shown) {
				t.Errorf("output %q lacks %q", out.String(), tt.shown)
			}
		})
	}
}

// lines returns the lines of records.
func lines(t *testing.T, records ...any) (s string) {
	t.Helper()
	for _, r := range records {
		line, err := record.Encode(r)
		if err != nil {
			t.Fatal(err)
		}
		s += string(line)
	}
	return s
}

func TestReadRecords(t *testing.T) {
	whole := lines(t,
		record.Hello{Kernel: "6.1"},
		record.Start{Test: "t_a", Backend: "ebpf"},
		record.Result{Test: "t_a", Backend: "ebpf", State: record.Pass},
		record.Start{Test: "t_a", Backend: "cnproc"},
		record.Result{Test: "t_a", Backend: "cnproc", State: record.Skip, Reason: "no uid"},
		record.Start{Test: "t_b", Backend: "ebpf"},
		record.Result{Test: "t_b", Backend: "ebpf", State: record.Fail, Reason: "lost 3"})
	torn := lines(t, record.Start{Test: "t_c", Backend: "ebpf"}) + `{"type":"resu`
	got := countRecords([]byte(whole + "garbage\n" + torn))
	want := Counts{Passed: 1, Failed: 2, Skipped: 1, Names: []string{
		"t_b @ ebpf: lost 3", "t_c @ ebpf: started and never ended",
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSteps(t *testing.T) {
	dir := t.TempDir()
	step := func(args ...string) {
		t.Helper()
		if _, err := testsum(append([]string{"run"}, args...), io.Discard); err != nil {
			t.Fatal(err)
		}
	}
	last := func() (string, bool) {
		t.Helper()
		var out bytes.Buffer
		failed, err := testsum([]string{"report", dir}, &out)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		return lines[len(lines)-1], failed
	}
	check := func(want string, wantFailed bool) {
		t.Helper()
		if got, failed := last(); got != want || failed != wantFailed {
			t.Errorf("report %q, failed %v; want %q, %v", got, failed, want, wantFailed)
		}
	}

	if _, err := testsum([]string{"report", dir}, io.Discard); err == nil {
		t.Error("a report of no step is no error")
	}
	step(dir, "vet", "true")
	check("1 passed, 0 failed", false)

	records := lines(t, record.Result{Test: "t_a", Backend: "ebpf", State: record.Pass},
		record.Result{Test: "t_b", Backend: "ebpf", State: record.Skip})
	if err := os.WriteFile(filepath.Join(dir, "host.jsonl"), []byte(records), 0o644); err != nil {
		t.Fatal(err)
	}
	step("-records", dir, "host", "true")
	check("2 passed, 0 failed, 1 skipped", false)

	// All its tests passed and yet it failed: that is a failure.
	step("-records", dir, "host", "sh", "-c", "exit 125")
	check("2 passed, 1 failed, 1 skipped", true)

	// A step that was to leave results and left none.
	step("-records", dir, "guest", "true")
	check("2 passed, 2 failed, 1 skipped", true)

	step(dir, "nosuch", "/no/such/program")
	check("2 passed, 3 failed, 1 skipped", true)
}
