package ctest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quark-linux/quark"
)

// recordings returns the recording of testdata/check.c, and one without its end.
func recordings(t testing.TB) (whole, torn string) {
	b := record(t, lives())
	return write(t, "lives.trace", b), write(t, "torn.trace", b[:len(b)-1])
}

// needsConnector skips a test of this machine if the proc connector does not work.
func needsConnector(t *testing.T) {
	t.Helper()
	q, err := quark.Open(quark.Options{Backends: quark.CNProc})
	if err != nil {
		t.Skip(err)
	}
	q.Close()
}

func TestCheck(t *testing.T) {
	needsConnector(t)
	program := compile(t, "testdata/check.c")
	whole, torn := recordings(t)
	if out, stderr, wrong := valgrind(t, program, whole, torn); out != "ok\n" || wrong != "" {
		t.Errorf("%s%s%s", out, stderr, wrong)
	}
}

// The static library has all that a program needs.
func TestCheckStatic(t *testing.T) {
	needsConnector(t)
	lib := library(t)
	program := t.TempDir() + "/check"
	gcc := exec.Command("gcc", "-std=c11", "-D_GNU_SOURCE", "-I", lib+"/include", "testdata/check.c", lib+"/lib/libquark.a", "-pthread", "-o", program)
	if out, err := gcc.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	whole, torn := recordings(t)
	if out, err := exec.CommandContext(t.Context(), program, whole, torn).CombinedOutput(); err != nil || string(out) != "ok\n" {
		t.Errorf("%v\n%s", err, out)
	}
}

// Valgrind reports the defects: a use after free and an access beyond the end.
func TestCheckSeesDefects(t *testing.T) {
	program := compile(t, "testdata/defects.c")
	whole, _ := recordings(t)
	for how, kind := range map[string]string{"late": "InvalidRead", "long": "InvalidRead"} {
		if _, stderr, wrong := valgrind(t, program, whole, how); !strings.Contains(wrong, kind) {
			t.Errorf("%s: %s%s", how, stderr, wrong)
		}
	}
}

// samples are recordings of backends.
func samples(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("../../../engine/enginetest/testdata/*.trace")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	return files
}

// The example prints the same dumps as Go, for recordings of each backend, too.
func TestMonitorDumpsAsGo(t *testing.T) {
	program := compile(t, "../examples/monitor.c")
	own, _ := recordings(t)
	for _, file := range append(samples(t), own) {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var want []byte
		q := replay(t, b)
		drain(t, q, func(ev *quark.Event) { want = q.AppendDump(want, ev) })
		run := exec.CommandContext(t.Context(), program, "-d", "-r", file)
		var stderr bytes.Buffer
		run.Stderr = &stderr
		got, err := run.Output()
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v\n%s\n%s\nwant %s", file, err, &stderr, got, want)
		}
	}
	for _, file := range []string{own, write(t, "growing.trace", record(t, growing()))} {
		if _, stderr, wrong := valgrind(t, program, "-p", "-r", file); wrong != "" {
			t.Errorf("%s: %s%s", file, stderr, wrong)
		}
	}
}
