package gotest

import (
	"strings"
	"testing"

	"github.com/quark-linux/quark/internal/harness/record"
)

func TestSum(t *testing.T) {
	const head = `{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}` + "\n"
	for _, tt := range []struct {
		name, stream string
		want         string // the end of the output
		shown        string // must be in the output
	}{
		{"pass", head + `{"Action":"output","Package":"p","Test":"TestA","Output":"--- PASS: TestA (0.00s)\n"}
{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}
{"Action":"pass","Package":"p"}`, "2 passed, 0 failed, 1 skipped\n", "ok  \tp\t0.1s\n"},
		{"subtests count, their parent does not", head + `{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA/x\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:3: bad\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    --- FAIL: TestA/x (0.00s)\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA/y\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    --- PASS: TestA/y (0.00s)\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"--- FAIL: TestA (0.00s)\n"}
{"Action":"fail","Package":"p"}`, "FAILED p TestA/x: bad\n2 passed, 1 failed, 1 skipped\n", "a_test.go:3: bad"},
		{"build failure", `{"ImportPath":"p","Action":"build-output","Output":"x.go:1: syntax error\n"}
{"Action":"fail","Package":"p","FailedBuild":"p"}`, "FAILED p: the package failed, but no test failed\n1 passed, 1 failed, 1 skipped\n", "syntax error"},
		{"panic ends the package", head + `{"Action":"output","Package":"p","Test":"TestA","Output":"panic: oh\n"}
{"Action":"fail","Package":"p"}`, "FAILED p TestA: panic: oh\n1 passed, 1 failed, 1 skipped\n", "panic: oh"},
		{"not JSON", "go: something odd", "1 passed, 0 failed, 1 skipped\n", "go: something odd"},
	} {
		var out strings.Builder
		s := Sum{Out: &out}
		if err := s.GoTest(strings.NewReader(tt.stream)); err != nil {
			t.Fatal(err)
		}
		s.Add("t_a @ ebpf", record.Pass, "")
		s.Add("t_b @ ebpf", record.Skip, "not here")
		good := s.Print()
		if got := out.String(); !strings.HasSuffix(got, tt.want) || !strings.Contains(got, tt.shown) || good == strings.Contains(tt.want, "FAILED") {
			t.Errorf("%s: %v, %q, want %q", tt.name, good, got, tt.want)
		}
	}
}
