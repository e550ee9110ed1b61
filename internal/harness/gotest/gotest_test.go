package gotest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/u-root/u-root/pkg/cpio"
)

// TestAppend: the archive begins at a multiple of 4. It contains the binary next to its testdata,
// each after its directory, and a list without paths of the host.
func TestAppend(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"bin": "binary", "testdata/a/b": "data", "testdata/c": "", "other": "no"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run := Run{Exec: true, Args: []string{"-test.v"}, Binaries: []Binary{
		{Path: filepath.Join(dir, "bin"), Dir: dir, Package: "x/y", Backend: "z"},
		{Path: filepath.Join(dir, "bin"), Dir: filepath.Join(dir, "none"), Package: "."},
	}}
	var b bytes.Buffer
	if err := Append(&b, strings.NewReader("image"), run); err != nil {
		t.Fatal(err)
	}
	if run.Binaries[0].Path == "" {
		t.Error("the caller's list was changed")
	}
	if got := b.Next(8); string(got) != "image\x00\x00\x00" {
		t.Errorf("got first bytes %q", got)
	}
	if bytes.Contains(b.Bytes(), []byte(dir)) {
		t.Errorf("the archive has the path %s of this machine", dir)
	}
	records, err := cpio.ReadAllRecords(cpio.EOFReader{RecordReader: cpio.Newc.Reader(bytes.NewReader(b.Bytes()))})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range records {
		names = append(names, r.Name)
		if r.Name != list {
			continue
		}
		text, err := io.ReadAll(io.NewSectionReader(r, 0, int64(r.FileSize)))
		var got Run
		if err != nil || json.Unmarshal(text, &got) != nil || !got.Exec || got.Binaries[0].Package != "x/y" {
			t.Errorf("got list %s, error %v", text, err)
		}
	}
	want := []string{"quark", "quark/x", "quark/x/y", "quark/x/y/y.test", "quark/x/y/testdata", "quark/x/y/testdata/a",
		"quark/x/y/testdata/a/b", "quark/x/y/testdata/c", "quark/quark.test", "quark/tests.json"}
	if !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	run.Binaries[0].Package = "../x"
	if err := Archive(io.Discard, run); err == nil {
		t.Error("a package outside the module: got no error")
	}
}

const sampleOutput = `warning of the runtime
^=== RUN   TestA
    a_test.go:5: fine
^--- PASS: TestA (1.50s)
^=== RUN   TestSkipped
    a_test.go:7: no kprobes here
^--- SKIP: TestSkipped (0.00s)
^=== RUN   TestSubs
^=== RUN   TestSubs/one
    a_test.go:9: not on this machine
^=== RUN   TestSubs/two
^    --- SKIP: TestSubs/one (0.00s)
^    --- SKIP: TestSubs/two (0.00s)
^--- PASS: TestSubs (0.00s)
^=== RUN   TestBad
half a line^=== RUN   TestBad/sub
    a_test.go:11: got 1, want 2
^    --- FAIL: TestBad/sub (0.01s)
^--- FAIL: TestBad (0.01s)
^=== RUN   TestP
^=== PAUSE TestP
^=== RUN   TestQ
^=== PAUSE TestQ
^=== CONT  TestP
^=== CONT  TestQ
    a_test.go:13: of Q
^=== NAME  TestP
    a_test.go:14: of P
^--- FAIL: TestP (0.00s)
^--- PASS: TestQ (0.00s)
^=== RUN   TestLate
^--- FAIL: TestLate (0.00s)
panic: out of bounds

goroutine 1 [running]:
^=== RUN   TestKilled
    a_test.go:15: on the way`

func TestParser(t *testing.T) {
	var got []string
	p := &parser{
		started: func(test string) { got = append(got, "start "+test) },
		going:   func() { got = append(got, "going") },
		ended: func(test string, o outcome) {
			got = append(got, fmt.Sprintf("%s %s %q %v %d", test, o.state, o.reason, o.took, strings.Count(o.log.String(), "\n")))
		},
	}
	for _, b := range []byte(strings.ReplaceAll(sampleOutput, "^", marker)) {
		p.Write([]byte{b})
	}
	p.close("the test binary ended: signal: killed")
	want := []string{
		"start TestA", `TestA pass "" 1.5s 1`,
		"start TestSkipped", `TestSkipped skip "no kprobes here" 0s 1`,
		"start TestSubs", "going", "going", `TestSubs skip "not on this machine" 0s 5`,
		"start TestBad", "going", `TestBad fail "got 1, want 2" 10ms 4`,
		"start TestP", "start TestQ", `TestP fail "of P" 0s 1`, `TestQ pass "" 0s 1`,
		"start TestLate", `TestLate fail "panic: out of bounds" 0s 3`,
		"start TestKilled", `TestKilled fail "the test binary ended: signal: killed" 0s 1`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if p.rest != "warning of the runtime\n" {
		t.Errorf("got output of no test %q", p.rest)
	}
}
