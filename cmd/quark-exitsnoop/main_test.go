package main

import (
	"os"
	"os/exec"
	"strconv"

	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/quark-linux/quark/exitsnoop"
)

func TestMain(m *testing.M) {
	becomeCommand() // the command of run in a test executes this binary
	testscript.Main(m, map[string]func(){"quark-exitsnoop": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Condition: func(cond string) (bool, error) {
			return cond == "kernel" && usable(), nil
		},
		Setup: func(e *testscript.Env) error {
			e.Defer(func() { exitsnoop.Clean(e.WorkDir) })
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"sleeper": sleeper},
	})
}

// usable says whether eBPF programs can be run here.
func usable() bool {
	s, err := exitsnoop.NewStoreFromAttach()
	if err != nil {
		return false
	}
	s.Close()
	return os.Getuid() == 0
}

// sleeper starts a process, and sets a variable to its pid.
func sleeper(ts *testscript.TestScript, _ bool, args []string) {
	c := exec.Command("sleep", "600")

	ts.Check(c.Start())
	ts.Setenv(args[0], strconv.Itoa(c.Process.Pid))
	done := make(chan struct{})
	go func() { c.Wait(); close(done) }()
	ts.Defer(func() { c.Process.Kill(); <-done })
}
