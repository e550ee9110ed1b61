package ebpf

import (
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/conform"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/internal/barefork"
	"github.com/quark-linux/quark/internal/children"
)

// queuedIn returns how many bytes the fullest of the rings holds.
func queuedIn(b buffer) (most uint64) {
	switch b := b.(type) {
	case *ring:
		return atomic.LoadUint64(b.producer) - b.at
	case *perfBuffers:
		for _, c := range b.cpus {
			most = max(most, uint64(c.ring.Pending()))
		}
	}
	return most
}

// usePerf makes sources read perf buffers, with maps that can be mapped or without.
func usePerf(t *testing.T, plain bool) {
	forced, hideMappable = source.BufferPerf, plain
	t.Cleanup(func() { forced, hideMappable = source.BufferAuto, false })
}

// Perf buffers do what the ring does.
func TestPerfBuffers(t *testing.T) {
	usePerf(t, false)
	t.Run("conform", TestConform)
	t.Run("privileges dropped", TestPrivilegesDropped)
	t.Run("kinds", TestKinds)
}

// The reader of perf buffers, with maps that can be mapped and without.
func TestPerfReader(t *testing.T) {
	for name, plain := range map[string]bool{"mapped": false, "plain maps": true} {
		t.Run(name, func(t *testing.T) {
			usePerf(t, plain)
			t.Run("loss", TestLoss)
			t.Run("arm", TestArm)
			t.Run("filling", TestFillingRingWakes)
			t.Run("loss is a gap", TestLossIsAGap)
			t.Run("gap in its place", TestGapInItsPlace)
			t.Run("nothing left", TestNothingLeft)
			t.Run("populate", TestPopulate)
		})
	}
}

// pinned runs processes on a CPU and returns their pids.
func pinned(t *testing.T, cpu, n int) (pids []int) {
	t.Helper()
	for range n {
		p, err := barefork.Start(new(barefork.Script).Pin(cpu).Exit(3), barefork.Options{Share: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := children.Wait(p.PID); err != nil {
			t.Fatal(err)
		}
		pids = append(pids, p.PID)
		p.Free()
	}
	return pids
}

// The records of all CPUs come in the order of their times.
func TestPerfOrder(t *testing.T) {
	usePerf(t, false)
	s := open(t, Options{})
	b, ok := s.buffer.(*perfBuffers)
	if !ok || len(b.cpus) < 2 {
		t.Skip("there is one CPU only")
	}
	conform.Drain(t, s)
	var pids []int
	for i := range 60 {
		pids = append(pids, pinned(t, b.cpus[i%2].number, 1)...)
	}
	evs := conform.Drain(t, s)
	for _, pid := range pids {
		evs.One(t, pid, engine.KindFork)
		evs.One(t, pid, engine.KindExit)
	}
	var cpus [2]bool
	var last uint64
	for i, ev := range evs {
		if ev.Time+reorder < last {
			t.Errorf("event %d of CPU %d is %d ns older than one before it", i, ev.CPU, last-ev.Time)
		}
		last = max(last, ev.Time)
		for n := range cpus {
			cpus[n] = cpus[n] || int(ev.CPU) == b.cpus[n].number
		}
	}
	if !cpus[0] || !cpus[1] {
		t.Errorf("events of CPUs: %v", cpus)
	}
}

// What has no room in the ring of one CPU is told of that CPU.
func TestPerfGapNamesTheCPU(t *testing.T) {
	usePerf(t, false)
	s := open(t, Options{RingSize: 1})
	cpu := s.buffer.(*perfBuffers).cpus[0].number
	before := s.counters.lost(cpu)
	pinned(t, cpu, 50)
	s.counters.read()
	lost := s.counters.lost(cpu).full - before.full
	gaps, _ := gapsOf(t, s)
	var told uint64
	for _, g := range gaps {
		if g.Cause == engine.LossRingFull && g.CPU == uint32(cpu) {
			told += g.Count
		}
		if g.Cause == engine.LossRingFull && g.CPU == engine.AllCPUs {
			t.Errorf("a gap of no CPU: %+v", g)
		}
	}
	if lost == 0 || told < lost {
		t.Errorf("CPU %d lost %d, gaps tell of %d", cpu, lost, told)
	}
}

// Reading takes no memory.
func TestPerfAllocatesNothing(t *testing.T) {
	for name, plain := range map[string]bool{"mapped": false, "plain maps": true} {
		t.Run(name, func(t *testing.T) {
			usePerf(t, plain)
			s := open(t, Options{})
			run, pool := shortLives(t), new(conform.Recycler)
			populate := func() { s.Populate(pool) }
			for range 3 { // it is to have memory for a record that lies across the end of a ring
				run(20)
				populate()
			}
			pool.N = 0
			// A look at the kernel's counters of skipped programs, five times a second,
			// reads a file.
			if least := conform.LeastAllocs(20, func() { run(5) }, populate); least > 0 || pool.N < 20*15 {
				t.Errorf("%d allocations in a reading, %d events in all", least, pool.N)
			}
		})
	}
}

// A CPU that goes and comes: what was written before is read, what finds no ring is counted and has
// its gap.
func TestPerfHotplug(t *testing.T) {
	const control = "/sys/devices/system/cpu/cpu1/online"
	if !scenario.InGuest() {
		t.Skip("it takes a CPU away, which is for guests only (QUARK_INITRAMFS=1)")
	}
	set := func(v string) {
		t.Helper()
		if err := os.WriteFile(control, []byte(v), 0); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(control); err != nil {
		t.Skip("no second CPU that can be taken offline")
	}
	usePerf(t, false)
	s := open(t, Options{})
	t.Cleanup(func() { set("1") })
	var received, told, unseen uint64
	var evs conform.Events
	read := func() {
		t.Helper()
		evs = conform.Drain(t, s)
		for _, ev := range evs {
			if ev.Kind != engine.KindGap {
				received++
				continue
			}
			told += ev.Gap.Count
			if ev.Gap.Cause == engine.LossUnseen {
				unseen += ev.Gap.Count
				if ev.Gap.CPU != 1 {
					t.Errorf("a gap of CPU %d: %+v", ev.Gap.CPU, *ev.Gap)
				}
			}
		}
	}
	for round := range 3 {
		written := pinned(t, 1, 5)
		set("0")
		read()
		for _, pid := range written {
			evs.One(t, pid, engine.KindExit)
		}
		read() // the ring is given up
		if n := len(s.buffer.(*perfBuffers).cpus); n != 1 {
			t.Errorf("%d rings with one CPU", n)
		}
		set("1")
		before := unseen
		pinned(t, 1, 5)
		read()
		if unseen-before < 5 {
			t.Errorf("round %d: %d events of a CPU without a ring are told", round, unseen-before)
		}
		seen := pinned(t, 1, 5)
		read()
		for _, pid := range seen {
			evs.One(t, pid, engine.KindExit)
		}
	}
	eventually(t, "produced = received + lost, and gaps tell of all", func() bool {
		read()
		st, err := s.Stats()
		return err == nil && !st.Bound && st.Produced == received+st.LostTotal() && told == st.LostTotal()
	})
}

// The CPUs of the rings are those that are online.
func TestPerfCPUs(t *testing.T) {
	usePerf(t, false)
	s := open(t, Options{RingSize: 1 << 20})
	b := s.buffer.(*perfBuffers)
	numbers := make([]int, 0, len(b.cpus))
	for _, c := range b.cpus {
		numbers = append(numbers, c.number)
	}
	if !slices.Equal(numbers, b.online.CPUs()) {
		t.Errorf("rings of CPUs %v, online are %v", numbers, b.online.CPUs())
	}
	if all := b.size * len(b.cpus); all < 1<<20 || all >= 2<<20 {
		t.Errorf("%d bytes for each of %d CPUs", b.size, len(b.cpus))
	}
	if !slices.ContainsFunc(s.Capabilities().Notes, func(n string) bool { return strings.Contains(n, "through perf buffers") }) {
		t.Errorf("the notes do not say it: %q", s.Capabilities().Notes)
	}
}
