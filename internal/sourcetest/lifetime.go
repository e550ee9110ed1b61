package sourcetest

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/quark-linux/quark/engine"
	"golang.org/x/sys/unix"
)

func (c Conformance) process(t *testing.T) {
	s := c.Open(t, Options{})
	before := time.Now()
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	cmd := Child("truth", "one", "", "three")
	out, evs := Run(t, s, cmd)
	truth := ParseTruth(t, out)
	pid := cmd.Process.Pid

	fork := evs.One(t, pid, engine.KindFork)
	if fork.Thread || int(fork.Creator) != os.Getpid() || int(fork.Task.PPID) != os.Getpid() || int(fork.TID) != pid {
		t.Errorf("fork: creator %d, ppid %d, tid %d, thread %v", fork.Creator, fork.Task.PPID, fork.TID, fork.Thread)
	}
	cwd, _ := os.Getwd()
	WantText(t, fork, engine.FieldCwd, cwd)
	WantText(t, fork, engine.FieldCgroup, truth["cgroup"])
	if fork.Bytes(engine.FieldFilename) != nil || fork.Bytes(engine.FieldCmdline) != nil {
		t.Error("fork knows an executable")
	}
	exec := evs.One(t, pid, engine.KindExec)
	WantTruth(t, exec, truth)
	exit := evs.One(t, pid, engine.KindExit)
	WantTruth(t, exit, truth)
	WantStatus(t, exit, cmd)
	if len(evs.Of(pid, engine.KindComm)) != 0 {
		t.Errorf("exec was reported as a rename too: %s", evs.Kinds(pid))
	}
	start := uint64(ts.Nano())
	end := start + uint64(time.Since(before)) + uint64(time.Second)
	if !(start <= fork.Time && fork.Time < exec.Time && exec.Time < exit.Time && exit.Time <= end) {
		t.Errorf("times %d < %d < %d < %d", start, fork.Time, exec.Time, exit.Time)
	}
	if fork.Task.Start != exec.Task.Start || fork.Task.Start != exit.Task.Start {
		t.Error("the start time changed")
	}
}

func (c Conformance) exitStatus(t *testing.T) {
	s := c.Open(t, Options{})
	for _, end := range []string{"exit 0", "exit 5", "exit 255", "kill 9", "kill 15", "kill 11"} {
		cmd := Child("end", strings.Fields(end)...)
		cmd.Dir = t.TempDir() // for the core
		_, evs := Run(t, s, cmd)
		WantStatus(t, evs.One(t, cmd.Process.Pid, engine.KindExit), cmd)
	}
}

func (c Conformance) leaderExitsFirst(t *testing.T) {
	s := c.Open(t, Options{})
	cmd := Child("leader-first")
	_, evs := Run(t, s, cmd)
	exit := evs.One(t, cmd.Process.Pid, engine.KindExit)
	WantStatus(t, exit, cmd)
	if int(exit.TID) != cmd.Process.Pid || exit.Task.Exit.Code() != 7 {
		t.Errorf("tid %d, code %d", exit.TID, exit.Task.Exit.Code())
	}
}

func (c Conformance) execFromThread(t *testing.T) {
	s := c.Open(t, Options{})
	cmd := Child("exec-thread")
	_, evs := Run(t, s, cmd)
	if n := len(evs.Of(cmd.Process.Pid, engine.KindExec)); n != 2 {
		t.Errorf("%d execs, not 2", n)
	}
	WantStatus(t, evs.One(t, cmd.Process.Pid, engine.KindExit), cmd)
	if len(evs.Of(cmd.Process.Pid, engine.KindComm)) != 0 {
		t.Errorf("exec was reported as a rename too")
	}
}

// endTogether has all threads of a group end at once, where more than one sees
// itself as the last.
func (c Conformance) endTogether(t *testing.T) {
	s := c.Open(t, Options{})
	for range 50 {
		cmd := Child("end-together")
		_, evs := Run(t, s, cmd)
		WantStatus(t, evs.One(t, cmd.Process.Pid, engine.KindExit), cmd)
	}
}

func (c Conformance) threads(t *testing.T) {
	s := c.Open(t, Options{Threads: true})
	cmd := Child("end-together")
	_, evs := Run(t, s, cmd)
	pid := cmd.Process.Pid
	var born, ended, groups int
	for _, ev := range evs {
		switch {
		case int(ev.PID) != pid:
		case ev.Kind == engine.KindFork && ev.Thread:
			born++
			if int(ev.Creator) != pid || ev.TID == ev.PID {
				t.Errorf("thread %d of %d created by %d", ev.TID, ev.PID, ev.Creator)
			}
		case ev.Kind == engine.KindExit && ev.Thread:
			ended++
		case ev.Kind == engine.KindExit:
			groups++
		}
	}
	st, err := s.Stats()
	if err != nil {
		t.Fatal(err)
	}
	lost := int(st.LostTotal())
	// One thread's end is that of the group.
	if born < 5 || ended+groups+lost != born+1 || groups != 1 && lost == 0 || lost != 0 && !c.ThreadsMayBeLost {
		t.Errorf("%d threads born, %d ended, %d groups ended, %d lost", born, ended, groups, lost)
	}
}
