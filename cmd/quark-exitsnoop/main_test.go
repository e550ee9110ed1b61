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
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/exitsnoop"
	"github.com/quark-linux/quark/internal/children"
	"github.com/quark-linux/quark/internal/retry"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"quark-exitsnoop": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Condition: func(cond string) (bool, error) {
			if cond == "hidden" { // the namespace of pid 1
				_, err := os.Stat("/proc/1/ns/pid")
				return err != nil, nil
			}
			return cond == "kernel" && usable(), nil
		},
		Setup: func(e *testscript.Env) error {
			e.Defer(func() { exitsnoop.Clean(e.WorkDir) })
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"sleeper": sleeper, "zombie": zombie, "shell": shell, "tell": tell, "traced": traced, "recorded": recorded},
	})
}

// usable reports whether eBPF programs can run here.
func usable() bool {
	s, err := exitsnoop.NewStoreFromAttach()
	if err != nil {
		return false
	}
	s.Close()
	return os.Getuid() == 0
}

// traced waits until a process is traced, recorded until its end is recorded.
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

// await waits for an operation on the process with the pid at the start of what.
func await(ts *testscript.TestScript, what string, done func(*exitsnoop.Store, uint32) bool) {
	var pid uint32
	_, err := fmt.Sscan(what, &pid)
	ts.Check(err)
	for range retry.For(30 * time.Second) {
		s, err := exitsnoop.NewStore(ts.Getenv("WORK"))
		if err == nil {
			yes := done(s, pid)
			s.Close()
			if yes {
				return
			}
		}
	}
	ts.Fatalf("timeout: waited for %s", what)
}

// sleeper starts a process, and sets a variable to its pid.
func sleeper(ts *testscript.TestScript, _ bool, args []string) {
	startProcess(ts, args[0], exec.Command("sleep", "600"))
}

// zombie starts a process that ends, and reaps it only at the end of the test.
func zombie(ts *testscript.TestScript, _ bool, args []string) {
	c := exec.Command("true")
	ts.Check(c.Start())
	ts.Defer(func() { c.Wait() })
	ts.Setenv(args[0], strconv.Itoa(c.Process.Pid))
	ts.Check(unix.Waitid(unix.P_PID, c.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil))
}

// shell starts a process with a child, and sets variables to their pids. After tell, the process
// starts another child, and both end.
func shell(ts *testscript.TestScript, _ bool, args []string) {
	c := exec.Command("sh", "-c", "(read line; exit 3) <&3 & read line <&3; (exit 4); wait; exit 5")
	r, w, err := os.Pipe()
	ts.Check(err)
	c.ExtraFiles = []*os.File{r}
	startProcess(ts, args[0], c)
	r.Close()
	gates[ts.Getenv(args[0])] = w
	for range retry.For(30 * time.Second) {
		if pids, _ := children.Of(c.Process.Pid); len(pids) == 1 {
			ts.Setenv(args[1], strconv.Itoa(pids[0]))
			return
		}
	}
	ts.Fatalf("the shell has no child")
}

// gates are the inputs of shell processes, by pid.
var gates = map[string]*os.File{}

func tell(ts *testscript.TestScript, _ bool, args []string) {
	fmt.Fprint(gates[args[0]], "\n\n")
}

func startProcess(ts *testscript.TestScript, variable string, c *exec.Cmd) {
	ts.Check(c.Start())
	ts.Setenv(variable, strconv.Itoa(c.Process.Pid))
	done := make(chan struct{})
	go func() { c.Wait(); close(done) }()
	ts.Defer(func() { c.Process.Kill(); <-done })
}
