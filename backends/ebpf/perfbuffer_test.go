package ebpf

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/conform"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/internal/thorough"
)

// queuedIn returns the number of unread bytes in the fullest ring.
func queuedIn(b buffer) (most uint64) {
	switch b := b.(type) {
	case *ring:
		return atomic.LoadUint64(b.producer) - b.at
	case *perfBuffers:
		for _, c := range b.cpus {
			most = max(most, uint64(c.Ring.Pending()))
		}
	}
	return most
}

// usePerf makes sources read perf buffers, as on a kernel without ring buffers. With plain, sources
// also assume a kernel without mappable maps and global functions.
func usePerf(t *testing.T, plain bool) {
	old := globalFunctions
	forcedBuffer, hideMappable = source.BufferPerf, plain
	if plain {
		globalFunctions = func() bool { return false }
	}
	t.Cleanup(func() { forcedBuffer, hideMappable, globalFunctions = source.BufferAuto, false, old })
}

// Perf buffers deliver the same events as the ring buffer, for all kinds and sizes.
func TestPerfBuffers(t *testing.T) {
	usePerf(t, false)
	conform.Score(t, open(t, Options{}), "fork-exec-exit", "vfork", "thread-forks", "exec-chain-5", "exec-from-thread", "leader-first",
		"setres-ids", "session", "comm", "ptrace", "exec-failed", "end-together", "usage", "args-1", "args-sizes", "args-100k", "cwd-90", "one-by-one")
	t.Run("privileges dropped", TestPrivilegesDropped)
}

// On a kernel without mappable maps and global functions, perf buffers deliver the same events.
// Only long paths are truncated earlier.
func TestPlainMaps(t *testing.T) {
	usePerf(t, true)
	conform.Score(t, open(t, Options{}), "fork-exec-exit", "exec-chain-2", "exec-from-thread", "setres-ids", "comm", "end-together", "args-sizes", "cwd-90")
}

// The tests of the reader pass with perf buffers, with and without mappable maps.
func TestPerfReader(t *testing.T) {
	for name, plain := range map[string]bool{"mapped": false, "plain maps": true} {
		t.Run(name, func(t *testing.T) {
			if plain {
				thorough.Skip(t, "repeats the tests of mapped maps")
			}
			usePerf(t, plain)
			t.Run("loss", TestLoss)
			t.Run("arm", TestArm)
			t.Run("filling", TestFillingRingWakes)
			t.Run("loss is a gap", TestLossIsAGap)
			t.Run("gap in its place", TestGapOrder)
			t.Run("nothing left", TestNothingLeft)
			t.Run("populate", TestPopulate)
		})
	}
}

// The records of all CPUs are returned in the order of their times.
func TestPerfOrder(t *testing.T) {
	usePerf(t, false)
	s := open(t, Options{})
	b, ok := s.buffer.(*perfBuffers)
	if !ok || len(b.cpus) < 2 {
		t.Skip("needs two CPUs")
	}
	conform.Drain(t, s)
	var pids []int
	for i := range 60 {
		pids = append(pids, conform.Pinned(t, b.cpus[i%2].Number, 1)...)
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
			t.Errorf("event %d of CPU %d is %d ns older than a previous event", i, ev.CPU, last-ev.Time)
		}
		last = max(last, ev.Time)
		for n := range cpus {
			cpus[n] = cpus[n] || int(ev.CPU) == b.cpus[n].Number
		}
	}
	if !cpus[0] || !cpus[1] {
		t.Errorf("got events of CPUs %v, want both", cpus)
	}
}

// The gap for a full ring names the ring's CPU.
func TestPerfGapNamesTheCPU(t *testing.T) {
	usePerf(t, false)
	s := open(t, Options{RingSize: 1})
	cpu := s.buffer.(*perfBuffers).cpus[0].Number
	before := s.counters.lost(cpu)
	conform.Pinned(t, cpu, 50)
	s.counters.read()
	lost := s.counters.lost(cpu).full - before.full
	gaps, _ := gapsOf(t, s)
	var reported uint64
	for _, g := range gaps {
		if g.Cause == engine.LossRingFull && g.CPU == uint32(cpu) {
			reported += g.Count
		}
		if g.Cause == engine.LossRingFull && g.CPU == engine.AllCPUs {
			t.Errorf("got a gap without a CPU: %+v", g)
		}
	}
	if lost == 0 || reported < lost {
		t.Errorf("CPU %d lost %d records, gaps report %d", cpu, lost, reported)
	}
}

// Populate does not allocate if the counters are mapped.
func TestPerfAllocatesNothing(t *testing.T) {
	usePerf(t, false)
	s := open(t, Options{})
	run, pool := processRunner(t), new(conform.Recycler)
	populate := func() { s.Populate(pool) }
	// The first calls allocate memory for records that wrap around the end of a ring.
	for range 3 {
		run(20)
		populate()
	}
	pool.N = 0
	want := 0
	// Five times a second, Populate reads the kernel's counters of skipped programs from a
	// file.
	if least := conform.LeastAllocs(100, func() { run(5); want += 15 }, populate); least > 0 || pool.N < want {
		t.Errorf("got %d allocations per call and %d events in all, want 0 and at least %d", least, pool.N, want)
	}
}

// A CPU goes offline and comes back. The records in its ring are read. Events without a ring are
// counted and reported by a gap.
func TestPerfHotplug(t *testing.T) {
	const control = "/sys/devices/system/cpu/cpu1/online"
	if !scenario.InGuest() {
		t.Skip("needs a guest (QUARK_INITRAMFS=1): the test takes a CPU offline")
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
	var received, reported, unseen uint64
	var evs conform.Events
	read := func() {
		t.Helper()
		evs = nil // conform.Drain drops gaps
		if err := s.Populate(&evs); err != nil {
			t.Fatal(err)
		}
		for _, ev := range evs {
			if ev.Kind != engine.KindGap {
				received++
				continue
			}
			reported += ev.Gap.Count
			if ev.Gap.Cause == engine.LossUnseen {
				unseen += ev.Gap.Count
				if ev.Gap.CPU != 1 {
					t.Errorf("got a gap of CPU %d, want CPU 1: %+v", ev.Gap.CPU, *ev.Gap)
				}
			}
		}
	}
	for round := range 3 {
		written := conform.Pinned(t, 1, 5)
		set("0")
		read()
		for _, pid := range written {
			evs.One(t, pid, engine.KindExit)
		}
		read() // closes the ring of the offline CPU
		if n := len(s.buffer.(*perfBuffers).cpus); n != 1 {
			t.Errorf("got %d rings with one online CPU, want 1", n)
		}
		set("1")
		before := unseen
		conform.Pinned(t, 1, 5)
		read()
		if unseen-before < 5 {
			t.Errorf("round %d: gaps report %d events of a CPU without a ring, want at least 5", round, unseen-before)
		}
		seen := conform.Pinned(t, 1, 5)
		read()
		for _, pid := range seen {
			evs.One(t, pid, engine.KindExit)
		}
	}
	eventually(t, "produced = received + lost, and gaps report all losses", func() bool {
		read()
		st, err := s.Stats()
		return err == nil && !st.Bound && st.Produced == received+st.LostTotal() && reported == st.LostTotal()
	})
}

// Each online CPU has a ring.
func TestPerfCPUs(t *testing.T) {
	usePerf(t, false)
	s := open(t, Options{RingSize: 1 << 20})
	b := s.buffer.(*perfBuffers)
	numbers := make([]int, 0, len(b.cpus))
	for _, c := range b.cpus {
		numbers = append(numbers, c.Number)
	}
	if !slices.Equal(numbers, b.online.CPUs()) {
		t.Errorf("got rings of CPUs %v, want %v", numbers, b.online.CPUs())
	}
	if all := b.size * len(b.cpus); all < 1<<20 || all >= 2<<20 {
		t.Errorf("got %d bytes for each of %d CPUs, want 1 to 2 MiB in all", b.size, len(b.cpus))
	}
	if !slices.ContainsFunc(s.Capabilities().Notes, func(n string) bool { return strings.Contains(n, "through perf buffers") }) {
		t.Errorf("no note reports perf buffers: %q", s.Capabilities().Notes)
	}
}

// If the kernel has no ring buffer, the source uses perf buffers and adds a note. If the probe
// fails with another error, the source uses the ring buffer.
func TestWithoutRing(t *testing.T) {
	old := haveRing
	t.Cleanup(func() { haveRing = old })
	for _, tt := range []struct {
		err  error
		perf bool
	}{{fmt.Errorf("map: %w", ebpf.ErrNotSupported), true}, {unix.EPERM, false}, {nil, false}} {
		haveRing = func() error { return tt.err }
		s := open(t, Options{})
		perf := slices.ContainsFunc(s.Capabilities().Notes, func(n string) bool {
			return strings.Contains(n, "through perf buffers") && strings.Contains(n, "the kernel has no BPF ring")
		})
		if _, reads := s.buffer.(*perfBuffers); reads != tt.perf || perf != tt.perf || s.Name() != "ebpf" {
			t.Errorf("probe error %v: source %s reads perf buffers: %v, note: %v", tt.err, s.Name(), reads, perf)
		}
	}
}

// For older verifiers, the loader replaces each read of a constant by the value.
func TestInlineConstants(t *testing.T) {
	spec, err := ebpf.LoadCollectionSpecFromReader(strings.NewReader(perfObject))
	if err != nil {
		t.Fatal(err)
	}
	l := &loader{spec: spec}
	if err := errors.Join(l.lowerLimits(), l.set(programsVarWantThreads, uint8(77))); err != nil {
		t.Fatal(err)
	}
	reads := func(p *ebpf.ProgramSpec) (n int) {
		for i := range p.Instructions[:len(p.Instructions)-1] {
			load, read := &p.Instructions[i], &p.Instructions[i+1]
			if load.IsLoadFromMap() && load.Reference() == constants && read.OpCode.Class() == asm.LdXClass && read.Src == load.Dst {
				n++
			}
		}
		return n
	}
	var before, after, found int
	for _, p := range spec.Programs {
		was := p.Copy()
		l.inlineConstants(p)
		before, after = before+reads(was), after+reads(p)
		for i := range p.Instructions {
			now, old := &p.Instructions[i], &was.Instructions[i]
			switch {
			case now.OpCode == old.OpCode && now.Constant == old.Constant:
			case now.OpCode != asm.Mov.Op32(asm.ImmSource) || now.Dst != old.Dst:
				t.Fatalf("%s: inlining replaced %v by %v", p.Name, old, now)
			case now.Constant == 77:
				found++
			}
		}
	}
	if before < 40 || after > 0 || found == 0 {
		t.Errorf("got %d of %d reads left, %d replaced by the set value", after, before, found)
	}
}
