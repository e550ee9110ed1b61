package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/scenario"
)

// perCPU lists the backends with perf events on each CPU. They must open events when a CPU comes
// online.
var perCPU = map[string]bool{"kprobe": true}

// readsPerf reports whether eBPF programs write to perf buffers. On a CPU without a buffer they
// count the lost records.
func (v *view) readsPerf() bool {
	return slices.ContainsFunc(v.q.Capabilities().Notes, func(n string) bool { return strings.Contains(n, "through perf buffers") })
}

// cpuHotplug takes a CPU offline and brings it back.
func cpuHotplug(t *test) {
	if !scenario.InGuest() {
		t.Skipf("it takes a CPU offline, so it runs only in guests (QUARK_INITRAMFS=1)")
	}
	cpus := onlineCPUs(t)
	if len(cpus) < 2 {
		t.Skipf("the machine has only one CPU")
	}
	cpu := cpus[len(cpus)-1]
	file := fmt.Sprintf("/sys/devices/system/cpu/cpu%d/online", cpu)
	if b, err := os.ReadFile(file); err != nil || string(b) != "1\n" {
		t.Skipf("CPU %d cannot be taken offline: %v", cpu, err)
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
			t.reapUnread(p)
			all = append(all, p)
		}
		return all
	}

	t.watch(single)
	t.eachQueue(func(v *view) {
		// With PREEMPT_RT the kernel may lose kprobe events without counting them.
		if _, err := os.Stat("/sys/kernel/realtime"); v.before.Source.Bound && err != nil {
			v.Errorf("got a lower bound of the loss before the CPU came online, want an exact count")
		}
	})
	for range 2 {
		// This process forks on the CPU and exits on another.
		end, ready := t.gate("the end"), t.gate("the process to run on the CPU")
		moved := t.spawn(script().Pin(cpu).Notify(ready.w).WaitFor(end.r).Exit(77), barefork{})
		t.awaitEvent(moved, "FORK", hasKinds(engine.EventFork))
		ready.awaitOpen()
		// Read events that happened before the CPU went offline.
		all := on(cpu, 10)
		set("0")
		all = append(all, on(cpus[0], 10)...)
		end.open()
		t.reap(moved)
		t.checkProcesses(0, append(all, moved)...)

		set("1")
		t.eachQueue(func(v *view) {
			if !perCPU[v.backend] && !v.readsPerf() {
				return
			}
			// Perf events work on the CPU once the reader has noticed that the CPU is
			// online.
			v.await("an EXIT on the CPU that came back", func() bool {
				p := on(cpu, 1)[0]
				return v.deliversSoon(p, engine.EventFork, engine.EventExit)
			})
		})
		t.checkProcesses(0, on(cpu, 10)...)
	}
	t.eachQueue(func(v *view) {
		s := v.stats()
		if v.readsPerf() {
			s.Source.Lost[engine.LossUnseen] = 0
		}
		if lostEvents(s) != lostEvents(v.before) {
			v.Errorf("got %d lost events %v, want %d %v as before", s.Lost(), s.Source.Lost, v.before.Lost(), v.before.Source.Lost)
		}
		// Without perf events nothing counts the events on a CPU, so the loss must be a
		// lower bound.
		if want := perCPU[v.backend]; s.Source.Bound != want {
			v.Errorf("loss is a lower bound: got %v, want %v", s.Source.Bound, want)
		}
	})
}
