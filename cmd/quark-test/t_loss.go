package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/internal/clock"
)

// loss makes events while the queue is not read and the kernel has small buffers, and checks that
// produced = delivered + lost.
func loss(t *test) {
	t.watch(tinyBuffers)
	t.checkConservation(false, func(v *view, missing uint64, s quark.Stats) {
		if missing == 0 {
			v.Fatalf("nothing was lost: the buffer was too large or the workload too small")
		}
		cause := engine.LossRingFull
		if v.backend == "cnproc" || v.backend == "audit" {
			cause = engine.LossSocketFull
		}
		for l := range engine.Loss(engine.NumLosses) {
			if n := s.Source.Lost[l]; l != cause && n != 0 {
				v.Errorf("got %d events lost by %s, want %s", n, l, cause)
			}
		}
		if !v.before.Source.Bound { // a write to a ring may have been in progress
			v.await("an exact number of lost events", func() bool {
				s = v.stats()
				return !s.Source.Bound
			})
		}
		if v.q.Capabilities().Kinds[engine.KindGap].Origin == engine.OriginNone {
			return
		}
		var counted uint64
		for _, ev := range v.events {
			if counted += ev.Gap.Count; ev.Events == engine.EventGap {
				v.Logf("%s lost %d events of CPU %d between %d and %d", ev.Gap.Cause, ev.Gap.Count, int32(ev.Gap.CPU), ev.Gap.From, ev.Gap.To)
			}
		}
		if counted == 0 || counted > s.Lost() {
			v.Errorf("gaps report %d lost events, the counters %d", counted, s.Lost())
		}
	})
}

// storm makes events as fast as it can, with a concurrent reader and default buffers, and checks
// that produced = delivered + lost.
func storm(t *test) {
	t.watch(single)
	t.checkConservation(true, func(*view, uint64, quark.Stats) {})
}

// checkConservation starts processes and checks that each event is delivered or counted as lost. If
// read is set, it reads the queues meanwhile. At the end it calls more with the number of missing
// events and the counters.
func (t *test) checkConservation(read bool, more func(v *view, missing uint64, s quark.Stats)) {
	cpus := onlineCPUs(t)
	t.markCounters()
	forksBefore, tasksBefore := countForks(t), countTasks(t)

	var all []*proc
	for i := range 150 {
		p := t.spawn(script().Pin(cpus[i%len(cpus)]).Exit(0), barefork{Share: true})
		t.reapUnread(p)
		all = append(all, p)
		if read {
			t.pump()
		}
	}
	t.eachQueue(func(v *view) { t.awaitRecovery(v, cpus) })
	forked := countForks(t) - forksBefore
	others := forked - uint64(len(all))
	// Processes that existed before can also end meanwhile.
	if ended := int64(forked) + tasksBefore - countTasks(t); ended > int64(forked) {
		others += uint64(ended) - forked
	}

	t.eachQueue(func(v *view) {
		s := v.awaitBalance()
		counted := s.Lost() - v.before.Lost()
		produced, delivered := uint64(2*len(all)), v.countForksAndExits(all)
		v.Logf("%d produced, %d delivered, %d lost %v; %d other forks or exits; %d insertions in all", produced, delivered, counted, s.Source.Lost, others, s.Insertions)
		missing := produced - delivered
		if counted < missing {
			v.Errorf("got %d events counted as lost, want at least %d, the missing ones", counted, missing)
		}
		// Events of other processes are lost too: a few for each fork or exit.
		if most := missing + 10*others + 10; counted > most {
			v.Errorf("got %d events counted as lost, want at most %d: %d are missing, with %d other forks or exits", counted, most, missing, others)
		}
		if s.Insertions+s.Lost() < produced {
			v.Errorf("got %d insertions and %d lost, want a sum of at least %d", s.Insertions, s.Lost(), produced)
		}
		more(v, missing, s)
	})
}

// countForksAndExits counts the delivered FORKs and EXITs of processes.
func (v *view) countForksAndExits(all []*proc) (n uint64) {
	for _, p := range all {
		n += uint64(v.count(p, engine.EventFork) + v.count(p, engine.EventExit))
	}
	return n
}

// awaitRecovery reads until the queue delivers all events again, and every CPU has reported its
// loss.
func (t *test) awaitRecovery(v *view, cpus []int) {
	for _, cpu := range cpus {
		// With such small buffers this event may be lost too.
		v.await("an EXIT on CPU "+itoa(cpu), func() bool {
			p := t.spawn(script().Pin(cpu).Exit(0), barefork{Share: true})
			t.reap(p)
			return v.deliversSoon(p, engine.EventExit)
		})
	}
}

// deliversSoon reports whether the queue soon delivers an event of p of each of the kinds.
func (v *view) deliversSoon(p *proc, kinds ...engine.Events) bool {
	for deadline := clock.Monotonic() + uint64(3*shortHold); clock.Monotonic() < deadline; {
		v.pump()
		if !slices.ContainsFunc(kinds, func(k engine.Events) bool { return v.count(p, k) == 0 }) {
			return true
		}
		v.q.Block(shortHold / 10)
	}
	return false
}

// onlineCPUs returns the CPUs that this process may use.
func onlineCPUs(t *test) []int {
	list, err := scenario.CPUs()
	if err != nil {
		t.Fatalf("%v", err)
	}
	return list
}

// countForks returns the number of processes and threads that the kernel has created since boot.
func countForks(t *test) (n uint64) {
	stat, err := os.ReadFile("/proc/stat")
	_, after, _ := strings.Cut(string(stat), "\nprocesses ")
	if err == nil {
		_, err = fmt.Sscan(after, &n)
	}
	if err != nil {
		t.Fatalf("read the number of forks from /proc/stat: %v", err)
	}
	return n
}

// countTasks returns the current number of processes and threads.
func countTasks(t *test) (n int64) {
	load, err := os.ReadFile("/proc/loadavg")
	if err == nil {
		_, err = fmt.Sscanf(string(load), "%f %f %f %d/%d", new(float64), new(float64), new(float64), new(int), &n)
	}
	if err != nil {
		t.Fatalf("read the number of tasks from /proc/loadavg: %v", err)
	}
	return n
}
