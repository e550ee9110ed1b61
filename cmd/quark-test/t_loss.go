package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/internal/clock"
)

// loss makes events while the queue is not read and the kernel has hardly any room, and
// checks that produced = delivered + lost.
func loss(t *test) {
	k := knobs(t, faults{processes: 150, stop: time.Hour, cpu: -1})
	k.watch(t, tinyBuffers)
	k.conserve(t, func(v *view, missing uint64, s quark.Stats) {
		if missing == 0 {
			v.Fatalf("nothing was lost: the buffer was too large or the workload too small")
		}
		cause := engine.LossRingFull
		if v.backend == "cnproc" || v.backend == "audit" {
			cause = engine.LossSocketFull
		}
		for l := range engine.Loss(engine.NumLosses) {
			if n := s.Source.Lost[l]; l != cause && n != 0 {
				v.Errorf("%d events lost by %s, expected was %s", n, l, cause)
			}
		}
		if !v.before.Source.Bound { // an event may have been on its way into a ring
			v.await("an exact number of lost events", func() bool {
				s = v.stats()
				return !s.Source.Bound
			})
		}
		if v.q.Capabilities().Kinds[engine.KindGap].Origin == engine.OriginNone {
			return
		}
		var told uint64
		for _, ev := range v.events {
			if told += ev.Gap.Count; ev.Events == engine.EventGap {
				v.Logf("%s lost %d events of CPU %d between %d and %d", ev.Gap.Cause, ev.Gap.Count, int32(ev.Gap.CPU), ev.Gap.From, ev.Gap.To)
			}
		}
		if told == 0 || told > s.Lost() {
			v.Errorf("gaps tell of %d lost events, lost are %d", told, s.Lost())
		}
	})
}

// storm makes events as fast as it can, with a reader at work and the default room, and
// checks that produced = delivered + lost.
func storm(t *test) {
	k := knobs(t, faults{processes: 150, cpu: -1})
	k.watch(t, single)
	k.conserve(t, func(*view, uint64, quark.Stats) {})
}

// faults are what makes a backend lose events. The environment sets them, in a
// guest by quark.env.NAME=VALUE on the kernel's command line.
type faults struct {
	// QUARK_FAULT_RING: bytes of the rings; 0: as in the shared queue
	ring int
	// QUARK_FAULT_SOCKET: bytes of the socket's receive buffer; 0: as in the shared queue
	socket    int
	processes int // QUARK_FAULT_PROCESSES: that are forked and end
	// QUARK_FAULT_STOP: milliseconds without reading, at most until all processes have ended
	stop time.Duration
	cpu  int // QUARK_FAULT_CPU: on which all run; -1: on all in turn
}

// knobs returns the faults that the environment asks for, or the test's own.
func knobs(t *test, k faults) faults {
	ms := int(k.stop / time.Millisecond)
	for name, value := range map[string]*int{
		"RING": &k.ring, "SOCKET": &k.socket, "PROCESSES": &k.processes, "STOP": &ms, "CPU": &k.cpu,
	} {
		if s := os.Getenv("QUARK_FAULT_" + name); s != "" {
			n, err := strconv.Atoi(s)
			if err != nil || n < -1 {
				t.Fatalf("QUARK_FAULT_%s=%s: a number is wanted", name, s)
			}
			*value = n
		}
	}
	k.stop = time.Duration(ms) * time.Millisecond
	return k
}

// watch lets the test use shared queues, or ones like them with the room that the
// faults leave.
func (k faults) watch(t *test, kind string) {
	if k.ring == 0 && k.socket == 0 {
		t.watch(kind)
		return
	}
	opts := options(kind)
	if k.ring > 0 {
		opts.EBPF.RingSize, opts.KProbe.RingSize = k.ring, k.ring
	}
	if k.socket > 0 {
		opts.CNProc.ReceiveBuffer, opts.Audit.ReceiveBuffer = k.socket, k.socket
	}
	t.openEach(opts)
}

// conserve makes processes and compares the counters with the truth: each event is
// delivered or lost, and each lost event is counted. Then it calls more with the number of
// missing events and the counters.
func (k faults) conserve(t *test, more func(v *view, missing uint64, s quark.Stats)) {
	cpus := onlineCPUs(t)
	t.mark()
	forksBefore, tasksBefore := forks(t), tasks(t)

	begin := time.Now()
	var all []*proc
	for i := range k.processes {
		cpu := k.cpu
		if cpu < 0 {
			cpu = cpus[i%len(cpus)]
		}
		p := t.spawn(script().Pin(cpu).Exit(0), barefork{Share: true})
		t.reapBlind(p)
		all = append(all, p)
		if time.Since(begin) > k.stop {
			t.pump()
		}
	}
	t.each(func(v *view) { t.awaitRecovery(v, cpus) })
	forked := forks(t) - forksBefore
	others := forked - uint64(len(all))
	// Processes that were there before can end meanwhile, too.
	if ended := int64(forked) + tasksBefore - tasks(t); ended > int64(forked) {
		others += uint64(ended) - forked
	}

	t.each(func(v *view) {
		s := v.counted()
		told := s.Lost() - v.before.Lost()
		produced, delivered := uint64(2*len(all)), v.ends(all) // FORK and EXIT
		v.Logf("%d produced, %d delivered, %d lost %v; %d other forks or ends; %d insertions in all", produced, delivered, told, s.Source.Lost, others, s.Insertions)
		missing := produced - delivered
		if told < missing {
			v.Errorf("%d events are missing, %d are counted as lost", missing, told)
		}
		// Events of other processes are lost as well: a few for each fork or end.
		if most := missing + 10*others + 10; told > most {
			v.Errorf("%d events are missing and there were %d other forks or ends, but %d are counted as lost", missing, others, told)
		}
		if s.Insertions+s.Lost() < produced {
			v.Errorf("%d insertions and %d lost of at least %d", s.Insertions, s.Lost(), produced)
		}
		more(v, missing, s)
	})
}

// ends counts the FORKs and EXITs of many processes that were delivered.
func (v *view) ends(all []*proc) (n uint64) {
	for _, p := range all {
		n += uint64(v.count(p, engine.EventFork) + v.count(p, engine.EventExit))
	}
	return n
}

// awaitRecovery reads until the queue delivers everything again, and every CPU has
// reported how much it has lost.
func (t *test) awaitRecovery(v *view, cpus []int) {
	for _, cpu := range cpus {
		// With so little room this event may be lost as well.
		v.await("an EXIT on CPU "+itoa(cpu), func() bool {
			p := t.spawn(script().Pin(cpu).Exit(0), barefork{Share: true})
			t.reap(p)
			return v.sees(p, engine.EventExit)
		})
	}
}

// sees reports whether the queue soon delivers an event of p of each of the kinds.
func (v *view) sees(p *proc, kinds ...engine.Events) bool {
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

// forks returns how many processes and threads the kernel has made since boot.
func forks(t *test) (n uint64) {
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

// tasks returns how many processes and threads there are.
func tasks(t *test) (n int64) {
	load, err := os.ReadFile("/proc/loadavg")
	if err == nil {
		_, err = fmt.Sscanf(string(load), "%f %f %f %d/%d", new(float64), new(float64), new(float64), new(int), &n)
	}
	if err != nil {
		t.Fatalf("read the number of tasks from /proc/loadavg: %v", err)
	}
	return n
}
