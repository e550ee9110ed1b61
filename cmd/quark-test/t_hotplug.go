package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/scenario"
)

// perCPU are the backends with events of each CPU, which have to be opened anew when one comes.
var perCPU = map[string]bool{"kprobe": true}

// readsPerf reports whether eBPF programs write to perf buffers. They count what they lose on a CPU
// that has none yet.
func (v *view) readsPerf() bool {
	return slices.ContainsFunc(v.q.Capabilities().Notes, func(n string) bool { return strings.Contains(n, "through perf buffers") })
}

// cpuHotplug takes a CPU offline and brings it back.
func cpuHotplug(t *test) {
	if !scenario.InGuest() {
		t.Skipf("it takes a CPU away, which is for guests only (QUARK_INITRAMFS=1)")
	}
	cpus := onlineCPUs(t)
	if len(cpus) < 2 {
		t.Skipf("there is one CPU only")
	}
	cpu := cpus[len(cpus)-1]
	file := fmt.Sprintf("/sys/devices/system/cpu/cpu%d/online", cpu)
	if b, err := os.ReadFile(file); err != nil || string(b) != "1\n" {
		t.Skipf("CPU %d cannot be taken away: %v", cpu, err)
	}
	set := func(state string) {
		t.Waiting(fmt.Sprintf("CPU %d to become %s", cpu, state))
		if err := os.WriteFile(file, []byte(state), 0); err != nil {
			t.Fatalf("%v", err)
		}
	}
	t.Cleanup(func() {
		if b, err := os.ReadFile(file); err == nil && string(b) != "1\n" {
			set("1")
		}
	})
	on := func(cpu int, n int) (all []*proc) {
		for i := range n {
			p := t.spawn(script().Pin(cpu).Exit(i), barefork{Share: true})
			t.reapBlind(p)
			all = append(all, p)
		}
		return all
	}

	t.watch(single)
	t.each(func(v *view) {
		// With PREEMPT_RT the kernel may lose events of kprobes that it does not count.
		if _, err := os.Stat("/sys/kernel/realtime"); v.before.Source.Bound && err != nil {
			v.Errorf("the loss is a lower bound before a CPU came")
		}
	})
	for range 2 {
		// Born on the CPU, ended on another.
		end, ready := t.gate("the end"), t.gate("the process to run on the CPU")
		moved := t.spawn(script().Pin(cpu).Notify(ready.w).WaitFor(end.r).Exit(77), barefork{})
		t.awaitEvent(moved, "FORK", has(engine.EventFork))
		ready.pass()
		// Events of the CPU from before it went offline are read afterwards.
		all := on(cpu, 10)
		set("0")
		all = append(all, on(cpus[0], 10)...)
		end.open()
		t.reap(moved)
		t.wantLives(0, append(all, moved)...)

		set("1")
		t.each(func(v *view) {
			if !perCPU[v.backend] && !v.readsPerf() {
				return
			}
			// Its perf events work on the CPU once the reader has noticed that it is
			// online.
			v.await("an EXIT on the CPU that came back", func() bool {
				p := on(cpu, 1)[0]
				return v.sees(p, engine.EventFork, engine.EventExit)
			})
		})
		t.wantLives(0, on(cpu, 10)...)
	}
	t.each(func(v *view) {
		s := v.stats()
		if v.readsPerf() {
			s.Source.Lost[engine.LossUnseen] = 0
		}
		if lost(s) != lost(v.before) {
			v.Errorf("%d lost %v, before it were %d %v", s.Lost(), s.Source.Lost, v.before.Lost(), v.before.Source.Lost)
		}
		// Events on a CPU before its perf events worked are not counted, so the loss has to
		// be reported as a lower bound.
		if want := perCPU[v.backend]; s.Source.Bound != want {
			v.Errorf("the loss is a lower bound: %v, want %v", s.Source.Bound, want)
		}
	})
}
