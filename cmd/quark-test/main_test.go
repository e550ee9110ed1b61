package main

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/quark-linux/quark/fidelity/scenario"
)

var fromFlags settings

func TestMain(m *testing.M) {
	prepare()
	if os.Geteuid() == 0 && os.Getenv("QUARK_TEST_MOUNTS") == "" && filepath.Base(os.Args[0]) != "quark-test" {
		os.Exit(inOwnMounts())
	}
	if os.Getenv(faultyEnv) != "" {
		tests = faulty
	}
	fromFlags.define(flag.CommandLine)
	testscript.Main(m, map[string]func(){"quark-test": main})
}

// inOwnMounts runs this program again in its own mount namespace, because other tests on this
// machine mount file systems.
func inOwnMounts() (status int) {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), "QUARK_TEST_MOUNTS=own")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		panic(err)
	}
	return cmd.ProcessState.ExitCode()
}

// TestQuark runs the tests of quark-test. Options such as -backends=kprobe choose backends.
func TestQuark(t *testing.T) { fromFlags.run(t) }

// The scripts need no root.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: "testdata", UpdateScripts: os.Getenv("UPDATE") != ""})
}

func TestTable(t *testing.T) {
	seen := make(map[string]bool)
	for _, r := range tests {
		if seen[r.name] || !strings.HasPrefix(r.name, "t_") || r.doc == "" || r.run == nil {
			t.Errorf("invalid or duplicate row %q", r.name)
		}
		seen[r.name] = true
	}
}

// A test performs every scenario.
func TestScenariosHaveTests(t *testing.T) {
	for _, s := range scenario.All() {
		if !slices.ContainsFunc(tests, func(r row) bool { return r.name == s.Test }) {
			t.Errorf("scenario %s names test %q, which does not exist", s.Name, s.Test)
		}
	}
}
