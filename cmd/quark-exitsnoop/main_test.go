package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

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
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"sleeper": sleeper, "traced": traced, "recorded": recorded},
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

// traced waits until a process is traced, recorded until its end is.
func traced(ts *testscript.TestScript, _ bool, args []string) {
	await(ts, args[0]+" to be traced", func(s *exitsnoop.Store, pid uint32) bool {
		_, err := s.GetTracingTask(pid)
		return err == nil
	})
}

func recorded(ts *testscript.TestScript, _ bool, args []string) {
	await(ts, args[0]+" to be recorded", func(s *exitsnoop.Store, pid uint32) bool {
		list, err := s.ExitedEvents()
		return err == nil && slices.ContainsFunc(list, func(e exitsnoop.Exit) bool { return e.Pid == pid })
	})
}

// await waits for what is done with the process whose pid what begins with.
func await(ts *testscript.TestScript, what string, done func(*exitsnoop.Store, uint32) bool) {
	var pid uint32
	_, err := fmt.Sscan(what, &pid)
	ts.Check(err)
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		s, err := exitsnoop.NewStore(ts.Getenv("WORK"))
		if err == nil {
			yes := done(s, pid)
			s.Close()
			if yes {
				return
			}
		}
		if time.Now().After(end) {
			ts.Fatalf("waited in vain for %s: %v", what, err)
		}
	}
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
