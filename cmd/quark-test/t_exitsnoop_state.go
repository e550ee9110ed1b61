package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/exitsnoop"
	bare "github.com/quark-linux/quark/internal/barefork"
)

// exitsnoopRestart kills tracers. One of their processes ends while no tracer runs, the other while
// the next tracer does.
func exitsnoopRestart(t *test) {
	root := t.snoopRoot()
	t.must(exitsnoop.EnsureRunning(root))
	between, g1 := t.standing(func(s *bare.Script) *bare.Script { return s.Exit(7) })
	later, g2 := t.standing(func(s *bare.Script) *bare.Script { return s.Exit(8) })
	for i, p := range []*proc{between, later} {
		tracer := t.snoopChild("trace", root, fmt.Sprint(p.PID), fmt.Sprint(i+1))
		out, err := tracer.StdoutPipe()
		t.must(err)
		t.must(tracer.Start())
		t.Waiting("the tracer")
		line, err := bufio.NewReader(out).ReadString('\n')
		tracer.Process.Kill()
		tracer.Wait()
		if line != "ok\n" {
			t.Fatalf("the tracer says %q, %v", line, err)
		}
	}
	g1.open()
	t.reapBlind(between)
	t.must(exitsnoop.EnsureRunning(root))
	for i, p := range []*proc{between, later} {
		waiter := t.snoopChild("wait", root, fmt.Sprint(i+1))
		var out strings.Builder
		waiter.Stdout = &out
		t.must(waiter.Start())
		if p == later {
			g2.open()
		}
		t.Waiting("the second tracer")
		t.must(waiter.Wait())
		if !p.reaped {
			t.reapBlind(p)
		}
		if got := strings.TrimSpace(out.String()); got != fmt.Sprint(int32(p.status)) {
			t.Errorf("process %d: the second tracer got %s, wait4 says %d", p.PID, got, p.status)
		}
	}
	t.wantStats(t.snoopStore(root), 2, 0, 0, 2)
}

// exitsnoopFullMap fills maps with room for 2 traced processes and 3 exits.
func exitsnoopFullMap(t *test) {
	s, _ := t.snoop(exitsnoop.Options{MaxTracing: 2, MaxEvents: 3})
	var all []*proc
	var gates []*gate
	for i := range 4 {
		p, g := t.standing(func(s *bare.Script) *bare.Script { return s.Exit(20 + i) })
		all, gates = append(all, p), append(gates, g)
	}
	t.trace(s, all[0], 0)
	t.trace(s, all[1], 1)
	try := func(i int) error {
		return s.Trace(uint32(all[i].PID), &exitsnoop.TaskInfo{TraceID: uint64(i)})
	}
	t.wantError("a third process", try(2), exitsnoop.ErrFull)
	gates[0].open()
	t.wantExit(s, all[0], 0)
	t.trace(s, all[2], 2)
	gates[1].open()
	t.wantExit(s, all[1], 1)
	t.wantError("a fourth exit", try(3), exitsnoop.ErrFull)
	gates[2].open()
	t.wantExit(s, all[2], 2)
	t.wantStats(s, 3, 0, 0, 3)
	if st, _ := s.Stats(); st.Refused != 2 {
		t.Errorf("refused %d, want 2", st.Refused)
	}
	t.must(s.DeleteExitedEvent(0))
	t.trace(s, all[3], 3)
	gates[3].open()
	t.wantExit(s, all[3], 3)
}

// exitsnoopConcurrent starts exitsnoop from 8 processes at once.
func exitsnoopConcurrent(t *test) {
	root := t.snoopRoot()
	t.Waiting("8 processes that start it")
	var all []*exec.Cmd
	for range 8 {
		c := t.snoopChild("ensure", root)
		t.must(c.Start())
		all = append(all, c)
	}
	for _, c := range all {
		if err := c.Wait(); err != nil {
			t.Errorf("%v", err)
		}
	}
	done, err := exitsnoop.EnsureRunningWith(root, exitsnoop.Options{})
	t.must(err)
	if *done != (exitsnoop.Setup{}) {
		t.Errorf("exitsnoop had to be started again: %+v", done)
	}
	s := t.snoopStore(root)
	p, g := t.standing(func(s *bare.Script) *bare.Script { return s.Exit(7) })
	t.trace(s, p, 1)
	g.open()
	t.wantExit(s, p, 1)
}

// exitsnoopUpgrade starts exitsnoop where embedshim's pkg/exitsnoop has been running.
func exitsnoopUpgrade(t *test) {
	root := t.snoopRoot()
	dir := snoopDir(root)
	t.must(os.Mkdir(dir, 0o700))
	t.must(unix.Mount("bpf", dir, "bpf", 0, "mode=700"))
	t.must(rlimit.RemoveMemlock()) // before Linux 5.11 maps count towards RLIMIT_MEMLOCK
	tasks, events := t.oldMap(dir, "tracing_tasks", 4), t.oldMap(dir, "exited_events", 8)
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.RawTracepoint, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}})
	t.must(err)
	defer program.Close()
	l, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: "sched_process_exit", Program: program})
	t.must(err)
	defer l.Close()
	t.must(l.Pin(filepath.Join(dir, "handle_sched_process_exit")))

	alive, g := t.standing(func(s *bare.Script) *bare.Script { return s.Exit(7) })
	gone := t.spawn(script().Exit(0), barefork{})
	t.reapBlind(gone)
	for i, p := range []*proc{alive, gone} {
		t.must(tasks.Put(uint32(p.PID), words(uint64(i+1), t.ownPidns().Dev, t.ownPidns().Ino)))
	}
	t.must(events.Put(uint64(3), words(4711|9<<32, 100, 200)))

	done, err := exitsnoop.EnsureRunningWith(root, exitsnoop.Options{})
	t.must(err)
	if *done != (exitsnoop.Setup{Started: true, Tasks: 1, Events: 1, Lost: 1}) {
		t.Errorf("taken over: %+v", done)
	}
	s := t.snoopStore(root)
	g.open()
	t.wantExit(s, alive, 1)
	_, err = s.GetExitedEvent(2)
	t.wantError("one that ended unseen", err, exitsnoop.ErrLost)
	st, err := s.GetExitedEvent(3)
	t.must(err)
	if *st != (exitsnoop.ExitStatus{Pid: 4711, ExitCode: 9, StartBoottime: 100, ExittedTime: 200}) {
		t.Errorf("taken over: %+v", *st)
	}
	if _, err := os.Lstat(filepath.Join(dir, "handle_sched_process_exit")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the older version still runs: %v", err)
	}
	s.Close()
	t.must(exitsnoop.Clean(root))

	// The state of a newer version is left alone.
	t.must(exitsnoop.EnsureRunning(root))
	t.must(os.Rename(filepath.Join(dir, "v1"), filepath.Join(dir, "v2")))
	t.wantError("a newer version", exitsnoop.EnsureRunning(root), exitsnoop.ErrNewerVersion)
	t.must(os.Rename(filepath.Join(dir, "v2"), filepath.Join(dir, "v1")))
}

func (t *test) oldMap(dir, name string, key uint32) *ebpf.Map {
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: key, ValueSize: 24, MaxEntries: 2048})
	t.must(err)
	t.Cleanup(func() { m.Close() })
	t.must(m.Pin(filepath.Join(dir, name)))
	return m
}

// words encodes a value of a map.
func words(list ...uint64) (b []byte) {
	for _, w := range list {
		b = binary.NativeEndian.AppendUint64(b, w)
	}
	return b
}

func (t *test) ownPidns() exitsnoop.PidnsInfo { return t.pidns(os.Getpid()) }

func (t *test) pidns(pid int) exitsnoop.PidnsInfo {
	var st unix.Stat_t
	t.must(unix.Stat(fmt.Sprintf("/proc/%d/ns/pid", pid), &st))
	return exitsnoop.PidnsInfo{Dev: st.Dev, Ino: st.Ino}
}
