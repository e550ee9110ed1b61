package ctest

import (
	"os/exec"
	"testing"

	"github.com/quark-linux/quark/internal/golden"
)

// The examples print a recording as expected.
func TestExamples(t *testing.T) {
	file, _ := recordings(t)
	run := exec.CommandContext(t.Context(), compile(t, "../examples/monitor.c"), "-p", "-f", "comm != long", "-r", file)
	out, err := run.Output()
	if err != nil {
		t.Fatal(err)
	}
	golden.Compare(t, "testdata/monitor.c.txt", out)
	golden.Compare(t, "testdata/monitor.py.txt", python(t, "../examples/monitor.py", "-p", "-f", "comm != long", "-r", file))
}

func TestPythonLive(t *testing.T) {
	needsConnector(t)
	if out := python(t, "testdata/live.py"); string(out) != "ok\n" {
		t.Errorf("%s", out)
	}
}

func TestPythonMisuse(t *testing.T) {
	needsConnector(t)
	whole, _ := recordings(t)
	if out := python(t, "testdata/misuse.py", whole); string(out) != "ok\n" {
		t.Errorf("%s", out)
	}
}
