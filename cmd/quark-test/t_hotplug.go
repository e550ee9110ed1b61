package main

import (
	"fmt"
	"os"

	"github.com/quark-linux/quark/engine"
)

// cpuHotplug takes a CPU away and gives it back.
func cpuHotplug(t *test) {
	if !inGuest() {
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
			s := script()
			pin(s, cpu)
			p := t.spawn(s.Exit(i), barefork{Share: true})
			t.reapBlind(p)
			all = append(all, p)
		}
		return all
	}

	t.listen()
	before, err := t.q.Stats()
	if err != nil || before.Source.Bound {
		t.Errorf("the loss is a lower bound before a CPU came: %v", err)
	}
	for range 2 {
		// Born there, ended elsewhere.
		end := t.gate("the end")
		s := script()
		pin(s, cpu)
		moved := t.spawn(s.WaitFor(end.r).Exit(77), barefork{})
		t.awaitEvent(moved, "FORK", has(engine.EventFork))
		t.asleep(moved)
		// What happened there before is read after it went.
		all := on(cpu, 10)
		set("0")
		all = append(all, on(cpus[0], 10)...)
		end.open()
		t.reap(moved)
		t.wantLives(0, append(all, moved)...)

		set("1")
		if t.Backend == "kprobe" {
			// Its probes work on the CPU once the reader has heard of it.
			t.await("an EXIT on the CPU that came back", func() bool {
				t.pump()
				p := on(cpu, 1)[0]
				for deadline := now() + uint64(3*shortHold); now() < deadline; {
					t.pump()
					if t.count(p, engine.EventFork) > 0 && t.count(p, engine.EventExit) > 0 {
						return true
					}
					t.q.Block(shortHold / 10)
				}
				return false
			})
		}
		t.wantLives(0, on(cpu, 10)...)
	}
	s, err := t.q.Stats()
	if err != nil || lost(s) != lost(before) {
		t.Errorf("%d lost %v, before it were %d %v, %v", s.Lost(), s.Source.Lost, before.Lost(), before.Source.Lost, err)
	}
	// What happened on a CPU before its probes worked is not counted, which has
	// to be said.
	if want := t.Backend == "kprobe"; s.Source.Bound != want {
		t.Errorf("the loss is a lower bound: %v, want %v", s.Source.Bound, want)
	}
}
