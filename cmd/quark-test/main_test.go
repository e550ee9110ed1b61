package main

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/quark-linux/quark/engine"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"quark-test": main})
}

// The scripts need no root.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata", UpdateScripts: os.Getenv("UPDATE") != ""})
}

func TestTable(t *testing.T) {
	seen := make(map[string]bool)
	for _, test := range tests {
		if seen[test.Name] || !strings.HasPrefix(test.Name, "t_") || test.Doc == "" || test.Run == nil {
			t.Errorf("bad row or the second of its name: %q", test.Name)
		}
		seen[test.Name] = true
	}
}

// What the tests take for the truth is itself compared with system calls.
func TestTruthOfSelf(t *testing.T) {
	v, err := readTruth(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	exe, _ := os.Executable()
	dir, _ := os.Getwd()
	pgid, _ := syscall.Getpgid(0)
	for f, want := range map[engine.Field]string{
		engine.FieldPPID:     strconv.Itoa(os.Getppid()),
		engine.FieldPGID:     strconv.Itoa(pgid),
		engine.FieldUIDs:     strconv.Itoa(os.Getuid()) + " " + strconv.Itoa(os.Geteuid()),
		engine.FieldGIDs:     strconv.Itoa(os.Getgid()) + " " + strconv.Itoa(os.Getegid()),
		engine.FieldFilename: exe,
		engine.FieldCwd:      dir,
		engine.FieldCmdline:  strings.Join(os.Args, "\x00") + "\x00",
	} {
		if v.value[f] != want {
			t.Errorf("%s is %q, want %q", f, v.value[f], want)
		}
	}
	for f := range engine.Field(engine.NumFields) {
		if v.value[f] == "" && f != engine.FieldExit {
			t.Errorf("%s is empty", f)
		}
	}
}

func TestTruthOfVanished(t *testing.T) {
	cmd := exec.CommandContext(context.Background(), "/proc/self/exe", "-test.run=^$")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if v, err := readTruth(cmd.Process.Pid); err == nil {
		t.Errorf("a process that has ended has the truth %+v", v)
	}
}

func TestCgroupOf(t *testing.T) {
	for in, want := range map[string]string{
		"0::/a\n":                       "/a",
		"8:pids:/p\n0::/a:b\n":          "/a:b",
		"8:cpu,cpuacct:/c\n7:pids:/p\n": "/p",
		"":                              "",
	} {
		if got := cgroupOf(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
