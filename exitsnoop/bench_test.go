package exitsnoop

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/barefork"
)

// BenchmarkUntraced measures the cost of the program at the exit of an untraced process, in ns, by
// the kernel's own clock (bpf stats). It repeats the measurement while thousands of other processes
// are traced, and with an empty program, which shows the cost of the clock.
func BenchmarkUntraced(b *testing.B) {
	for _, crowd := range []uint32{0, 10000} {
		b.Run(fmt.Sprintf("of %d", crowd), func(b *testing.B) {
			s := private(b, Options{})
			for i := range crowd {
				// No process has these pids.
				ok(b, s.tasks.Update(1<<24|i*0x9e3779%(1<<24), &programsTask{TraceId: uint64(i)}, ebpf.UpdateNoExist))
			}
			benchmarkExits(b, programs(b, s)...)
		})
	}
	b.Run("empty program", func(b *testing.B) {
		needKernel(b)
		p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.RawTracepoint, License: "GPL",
			Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}})
		ok(b, err)
		defer p.Close()
		l, err := link.AttachRawTracepoint(link.RawTracepointOptions{Name: "sched_process_exit", Program: p})
		ok(b, err)
		defer l.Close()
		benchmarkExits(b, p)
	})
}

// benchmarkExits reports the time of the programs, each of which runs once per exit.
func benchmarkExits(b *testing.B, programs ...*ebpf.Program) {
	stats, err := ebpf.EnableStats(0) // BPF_STATS_RUN_TIME
	ok(b, err)
	defer stats.Close()
	var before, after []*ebpf.ProgramStats
	stat := func(to *[]*ebpf.ProgramStats) {
		for _, p := range programs {
			st, err := p.Stats()
			ok(b, err)
			*to = append(*to, st)
		}
	}
	stat(&before)
	for b.Loop() {
		c, err := barefork.Start(script().Exit(0), barefork.Options{})
		ok(b, err)
		unix.Wait4(c.PID, nil, 0, nil)
		c.Free()
	}
	stat(&after)
	var ns float64
	for i := range programs {
		ns += float64(after[i].Runtime-before[i].Runtime) / float64(after[i].RunCount-before[i].RunCount)
	}
	b.ReportMetric(ns, "ns/exit")
}

func programs(b testing.TB, s *Store) (all []*ebpf.Program) {
	for _, name := range linkNames[:2] { // those for exits
		info, err := s.links[name].Info()
		ok(b, err)
		p, err := ebpf.NewProgramFromID(info.Program)
		ok(b, err)
		b.Cleanup(func() { p.Close() })
		all = append(all, p)
	}
	return all
}

// TestManyAtOnce checks that 10,000 traced processes that end at once are all recorded, except
// those for which the kernel skipped both programs.
func TestManyAtOnce(t *testing.T) {
	// A guest with 512 MiB has memory for some hundreds.
	var memory unix.Sysinfo_t
	ok(t, unix.Sysinfo(&memory))
	n := min(10000, int(memory.Freeram*uint64(memory.Unit)>>20))
	s := private(t, Options{})
	var gate [2]int
	ok(t, unix.Pipe2(gate[:], unix.O_CLOEXEC))
	defer unix.Close(gate[0])
	var all []*barefork.Process
	var once sync.Once
	open := func() { once.Do(func() { unix.Close(gate[1]) }) }
	defer func() {
		open()
		for _, p := range all {
			unix.Wait4(p.PID, nil, 0, nil)
			p.Free()
		}
	}()
	for i := range n {
		// Each child closes its copy of the writing end. When the test closes the last
		// copy, all children read the end of file. They share the memory of the test,
		// because a fork with thousands of mappings is slow.
		p, err := barefork.Start(script().Call("close", unix.SYS_CLOSE, gate[1]).WaitFor(gate[0]).Exit(i%200), barefork.Options{Share: true})
		if err != nil {
			t.Skipf("only %d processes could be started: %v", i, err)
		}
		all = append(all, p)
		ok(t, s.Trace(uint32(p.PID), &TaskInfo{TraceID: uint64(i)}))
	}
	begin := time.Now()
	open()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	lost := uint64(0)
	for i := range n {
		st, err := s.Wait(ctx, uint64(i))
		if errors.Is(err, ErrLost) {
			lost++
			continue
		}
		ok(t, err)
		if st.WaitStatus().ExitStatus() != i%200 || int(st.Pid) != all[i].PID {
			t.Fatalf("process %d: %+v", i, st)
		}
	}
	took := time.Since(begin)
	st, err := s.Stats()
	ok(t, err)
	skipped := uint64(math.MaxUint64)
	for _, p := range programs(t, s) {
		stats, err := p.Stats()
		ok(t, err)
		skipped = min(skipped, stats.RecursionMisses)
	}
	if st.Recorded+lost != uint64(n) || st.Lost != 0 || st.Unseen != lost || lost > skipped {
		t.Errorf("got %+v, %d lost, a program was skipped %d times", st, lost, skipped)
	}
	t.Logf("got %d exits in %v, %d lost", n, took, lost)
}
