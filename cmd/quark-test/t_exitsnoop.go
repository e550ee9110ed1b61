package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/exitsnoop"
	bare "github.com/quark-linux/quark/internal/barefork"
)

// exitsnoopEnv is the environment variable that turns this program into a helper of an exitsnoop
// test. Its value is what the helper does:
//
//	ensure:ROOT        starts exitsnoop
//	trace:ROOT:PID:ID  traces a process, prints "ok" and waits for a signal
//	wait:ROOT:ID       waits for the end of a traced process and prints its status
//	stand:CODE         waits for a byte or the end of its standard input and exits with CODE
const exitsnoopEnv = "QUARK_TEST_EXITSNOOP"

// exitsnoopChild runs the helper if this process was started as one, and does not return then.
func exitsnoopChild() {
	v := os.Getenv(exitsnoopEnv)
	if v == "" {
		return
	}
	code, err := exitsnoopAct(strings.Split(v, ":"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 2
	}
	os.Exit(code)
}

func exitsnoopAct(words []string) (code int, err error) {
	what, args := words[0], words[1:]
	if what == "stand" {
		os.Stdin.Read(make([]byte, 1))
		return strconv.Atoi(args[0])
	}
	root := args[0]
	if what == "ensure" {
		return 0, exitsnoop.EnsureRunning(root)
	}
	s, err := exitsnoop.NewStore(root)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	if what == "trace" {
		pid, err1 := strconv.ParseUint(args[1], 10, 32)
		id, err2 := strconv.ParseUint(args[2], 10, 64)
		if err := errors.Join(err1, err2); err != nil {
			return 0, err
		}
		if err := s.Trace(uint32(pid), &exitsnoop.TaskInfo{TraceID: id}); err != nil {
			return 0, err
		}
		fmt.Println("ok")
		for {
			unix.Pause()
		}
	}
	id, err := strconv.ParseUint(args[1], 10, 64)
	if err != nil {
		return 0, err
	}
	st, err := s.Wait(context.Background(), id)
	if err != nil {
		return 0, err
	}
	fmt.Println(st.ExitCode)
	return 0, nil
}

// snoopChild returns a command that runs this program as a helper.
func (t *test) snoopChild(words ...string) *exec.Cmd {
	c := exec.Command(t.self())
	c.Env = append(os.Environ(), exitsnoopEnv+"="+strings.Join(words, ":"))
	c.Stderr = os.Stderr
	return c
}

// snoopRoot makes a state directory for exitsnoop, which is cleaned after the test.
func (t *test) snoopRoot() string {
	root := t.TempDir()
	t.Cleanup(func() {
		if err := exitsnoop.Clean(root); err != nil && !errors.Is(err, exitsnoop.ErrNotRunning) {
			t.Errorf("%v", err)
		}
		unix.Unmount(snoopDir(root), unix.MNT_DETACH)
	})
	return root
}

func snoopDir(root string) string { return filepath.Join(root, ".exitsnoop.bpf") }

// snoop runs exitsnoop in a new root and opens its store.
func (t *test) snoop(o exitsnoop.Options) (s *exitsnoop.Store, root string) {
	root = t.snoopRoot()
	t.must(second(exitsnoop.EnsureRunningWith(root, o)))
	return t.snoopStore(root), root
}

func (t *test) snoopStore(root string) *exitsnoop.Store {
	s, err := exitsnoop.NewStore(root)
	t.must(err)
	t.Cleanup(func() { s.Close() })
	return s
}

// must ends the test on an error, and skips it if the kernel lacks a needed eBPF feature.
func (t *test) must(err error) {
	switch {
	case errors.Is(err, exitsnoop.ErrUnsupported):
		t.Skipf("%v", err)
	case err != nil:
		t.Fatalf("%v", err)
	}
}

func second[T any](_ T, err error) error { return err }

// wantError checks that err wraps want.
func (t *test) wantError(what string, err, want error) {
	if !errors.Is(err, want) {
		t.Errorf("%s: error is %v, want %v", what, err, want)
	}
}

// trace traces a process under an id.
func (t *test) trace(s *exitsnoop.Store, p *proc, id uint64) {
	t.must(s.Trace(uint32(p.PID), &exitsnoop.TaskInfo{TraceID: id}))
}

// wantExit waits for the recorded exit of a traced process and compares it with the result of
// wait4.
func (t *test) wantExit(s *exitsnoop.Store, p *proc, id uint64) {
	t.Waiting(fmt.Sprintf("the exit of process %d", p.PID))
	ctx, cancel := context.WithTimeout(context.Background(), t.Limit/3)
	defer cancel()
	st, err := s.Wait(ctx, id)
	if err != nil {
		t.Fatalf("process %d: %v", p.PID, err)
	}
	if !p.reaped {
		t.reapBlind(p)
	}
	t.sameExit(st, p)
}

func (t *test) sameExit(st *exitsnoop.ExitStatus, p *proc) {
	if int(st.Pid) != p.PID || st.WaitStatus() != p.status {
		t.Errorf("process %d: recorded is pid %d, status %#x, wait4 says %#x", p.PID, st.Pid, st.ExitCode, p.status)
	}
	if st.ExittedTime < p.before || st.ExittedTime > now() {
		t.Errorf("process %d: ended at %d, not between %d, its birth, and now", p.PID, st.ExittedTime, p.before)
	}
}

// standing starts a process that waits at a gate and then makes the calls of end.
func (t *test) standing(end func(s *bare.Script) *bare.Script) (*proc, *gate) {
	g := t.gate("the process to be told to end")
	return t.spawn(end(script().WaitFor(g.r)), barefork{}), g
}

// asleep waits until the leader of a process sleeps.
func (t *test) asleep(p *proc) {
	t.Waiting(fmt.Sprintf("process %d to stand still", p.PID))
	for end := time.Now().Add(t.Limit / 3); ; time.Sleep(time.Millisecond) {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID))
		if _, after, _ := strings.Cut(string(b), ") "); strings.HasPrefix(after, "S") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("process %d does not stand still: %s", p.PID, b)
		}
	}
}

// wantStats compares the counters that do not depend on timing.
func (t *test) wantStats(s *exitsnoop.Store, recorded, lost uint64, tracing, uncollected int) {
	st, err := s.Stats()
	t.must(err)
	if st.Recorded != recorded || st.Lost != lost || st.Tracing != tracing || st.Uncollected != uncollected {
		t.Errorf("recorded %d, lost %d, tracing %d, uncollected %d, want %d, %d, %d, %d",
			st.Recorded, st.Lost, st.Tracing, st.Uncollected, recorded, lost, tracing, uncollected)
	}
}
