package kprobe

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quark-linux/quark/backends/internal/owner"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/conform"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/internal/clock"
	"github.com/quark-linux/quark/internal/retry"
	"github.com/quark-linux/quark/internal/tracefs"
	"golang.org/x/sys/unix"
)

var printFormats = flag.Bool("formats", false, "print the formats of the probes' records, for testdata")

// probeNames returns the names of all probes that quark has in the kernel.
func probeNames(t *testing.T) (names []string) {
	t.Helper()
	fs, err := tracefs.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer fs.Close()
	all, err := fs.ProbeNames(tracefs.KprobeEvents)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range all {
		if _, _, ok := owner.Parse(strings.SplitN(n, "/", 2)[0]); ok {
			names = append(names, n)
		}
	}
	return names
}

func TestClose(t *testing.T) {
	fds := func() int { d, _ := os.ReadDir("/proc/self/fd"); return len(d) }
	open(t, Options{}).Close() // the first Open opens descriptors that are never closed
	before := fds()
	begin := time.Now()
	s := open(t, Options{})
	opened := time.Since(begin)
	if n := len(probeNames(t)); n < numFamilies {
		t.Errorf("got %d probes, want at least %d", n, numFamilies)
	}
	begin = time.Now()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	t.Logf("opened in %v, closed in %v", opened, time.Since(begin))
	if n := probeNames(t); len(n) != 0 {
		t.Errorf("probes left after Close: %v", n)
	}
	if after := fds(); after != before {
		t.Errorf("got %d descriptors before Open, %d after Close", before, after)
	}
	if err := s.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if s.Populate(engine.NewBuffer(1)) == nil || s.FD() != -1 || s.Arm(true) {
		t.Error("after Close, Populate, FD or Arm still works")
	}
}

// Open fails half way if it runs out of descriptors. It leaves no probes.
func TestFailedOpen(t *testing.T) {
	open(t, Options{}).Close()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	for _, n := range []uint64{12, 25, 40} {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: limit.Max}); err != nil {
			t.Fatal(err)
		}
		_, err := Open(source.Options{}, Options{})
		unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
		if err == nil {
			t.Errorf("Open succeeded with %d descriptors", n)
		} else {
			t.Log(err)
		}
		if n := probeNames(t); len(n) != 0 {
			t.Errorf("probes left after a failed Open: %v", n)
		}
	}
}

func TestTwoQueues(t *testing.T) {
	a, b := open(t, Options{}), open(t, Options{RingSize: 1 << 20})
	conform.Drain(t, b)
	c := conform.Child("exit")
	seen := conform.Run(t, a, c)
	for _, evs := range []conform.Events{seen, conform.Drain(t, b)} {
		evs.One(t, c.Process.Pid, engine.KindFork)
		evs.One(t, c.Process.Pid, engine.KindExec)
		evs.One(t, c.Process.Pid, engine.KindExit)
	}
	a.Close()
	c = conform.Child("exit")
	seen = conform.Run(t, b, c)
	seen.One(t, c.Process.Pid, engine.KindExit)
}

func TestDropPrivileges(t *testing.T) {
	open(t, Options{}).Close()
	c, _ := conform.WantDropped(t, "dropped")
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
	if n := probeNames(t); len(n) != 0 {
		t.Errorf("probes left: %v", n)
	}
}

// The descriptor wakes an idle reader at the next event, and a busy reader only when a ring fills
// up.
func TestArm(t *testing.T) {
	s := open(t, Options{})
	wait := func(ms int) int {
		fds := []unix.PollFd{{Fd: int32(s.FD()), Events: unix.POLLIN}}
		for {
			n, err := unix.Poll(fds, ms)
			if err != unix.EINTR {
				return n
			}
		}
	}
	for range 3 {
		for !s.Arm(true) {
			conform.Drain(t, s)
		}
		if n := wait(0); n != 0 {
			wait(20) // reads an earlier wake-up
			continue
		}
		c := conform.Child("exit")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		if n := wait(2000); n != 1 {
			t.Errorf("got %d wake-ups for an event, want 1", n)
		}
		c.Wait()
	}
	conform.Drain(t, s)
	s.Arm(false) // disarms the CPUs whose event woke the reader
	for range 5 {
		conform.Drain(t, s)
		s.Arm(false)
		conform.Child("exit").Run()
	}
	conform.Drain(t, s)
	s.Arm(false)
	wait(0)
	conform.Child("exit").Run()
	if n := wait(20); n != 0 {
		t.Log("an event woke a busy reader, from a CPU whose wakeup event had not happened yet")
	}
	for range 400 {
		conform.Child("exit").Run()
		if wait(0) == 1 {
			return
		}
	}
	t.Error("a full ring did not wake a busy reader")
}

// Without a reader, every event that finds a full ring is counted.
func TestLoss(t *testing.T) {
	s := open(t, Options{RingSize: 1})
	conform.Drain(t, s)
	var inserted uint64
	count := func() {
		evs := conform.Drain(t, s)
		inserted += uint64(len(evs))
	}
	before, err := s.Stats()
	if err != nil {
		t.Fatal(err)
	}
	for round := range 3 {
		for range 20 {
			conform.Child("exit").Run()
		}
		count()
		st, err := s.Stats()
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("round %d: produced %d, lost %v, delivered %d, bound %v", round, st.Produced-before.Produced, st.Lost, inserted, st.Bound)
	}
	// If the record of a leader is lost, the EXIT is delayed; so is an event whose next record
	// is lost. Both are delivered in the end.
	var st engine.SourceStats
	var produced, lost uint64
	for range retry.For(5 * time.Second) {
		count()
		if st, err = s.Stats(); err != nil {
			t.Fatal(err)
		}
		produced, lost = st.Produced-before.Produced, st.LostTotal()
		if produced == inserted+lost && st.Bound == before.Bound {
			break
		}
	}
	if lost == 0 || produced != inserted+lost || st.Bound != before.Bound {
		t.Errorf("got produced %d, delivered %d, lost %v, bound %v", produced, inserted, st.Lost, st.Bound)
	}
	// Each child has a FORK, an EXEC and an EXIT.
	if produced < 3*60 {
		t.Errorf("got %d events of 60 processes, want at least %d", produced, 3*60)
	}
	if st.Lost[engine.LossDecode] != 0 {
		t.Errorf("got lost %v, want no LossDecode", st.Lost)
	}
}

func TestHotplug(t *testing.T) {
	const control = "/sys/devices/system/cpu/cpu1/online"
	set := func(v string) error { return os.WriteFile(control, []byte(v), 0) }
	if _, err := os.Stat(control); err != nil {
		t.Skip("no second CPU that can be taken offline")
	}
	s := open(t, Options{})
	pids := conform.Pinned(t, 1, 20)
	if err := set("0"); err != nil {
		t.Skip(err)
	}
	defer set("1")
	evs := conform.Drain(t, s)
	for _, pid := range pids { // their records are in the ring of the offline CPU
		evs.One(t, pid, engine.KindFork)
		evs.One(t, pid, engine.KindExit)
	}
	if n := len(s.cpus); n != 1 {
		t.Errorf("got %d rings with one online CPU, want 1", n)
	}
	// This source opens while a CPU is offline.
	other := open(t, Options{})
	if err := set("1"); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Source{s, other} {
		conform.Drain(t, s)
		if n := len(s.cpus); n != 2 {
			t.Errorf("got %d rings with two online CPUs, want 2; notes %v", n, s.Capabilities().Notes)
		}
		runtime.LockOSThread()
		var one unix.CPUSet
		one.Set(1)
		if err := unix.SchedSetaffinity(0, &one); err != nil {
			t.Fatal(err)
		}
		c := conform.Child("exit")
		evs := conform.Run(t, s, c)
		var all unix.CPUSet
		all.Set(0)
		all.Set(1)
		unix.SchedSetaffinity(0, &all)
		runtime.UnlockOSThread()
		for _, k := range []engine.Kind{engine.KindFork, engine.KindExec, engine.KindExit} {
			if evs := evs.Of(c.Process.Pid, k); len(evs) != 1 || evs[0].CPU != 1 {
				t.Errorf("got %d %v events, want one on CPU 1", len(evs), k)
			}
		}
	}
	// Three cases lose events: a CPU goes offline and has no perf events; a CPU comes online
	// before the kernel announces it; a CPU goes offline again before the source checks. The
	// gap precedes later events.
	for _, states := range []string{"0", "1", "0", "10"} {
		from := clock.Monotonic()
		for _, state := range strings.Split(states, "") {
			if set(state); state == "0" {
				continue
			}
			if states == "1" {
				s.online.Skip()
			}
			if _, _, err := scenario.Brief(1); err != nil {
				t.Fatal(err)
			}
		}
		until := clock.Monotonic()
		var evs conform.Events
		if err := s.Populate(&evs); err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(evs, func(ev *engine.RawEvent) bool {
			return ev.Kind == engine.KindGap && ev.Gap.CPU == 1 && ev.Gap.From <= from && ev.Gap.To >= until
		}) {
			t.Errorf("got no gap for a CPU whose online state became %s", states)
		}
	}
	set("1")
	conform.Drain(t, s)
	// The CPU goes offline and comes back before the source checks.
	set("0")
	set("1")
	conform.Drain(t, s)
	c := conform.Child("exit")
	evs = conform.Run(t, s, c)
	evs.One(t, c.Process.Pid, engine.KindExit)
	st, err := s.Stats()
	// Events on the CPU may be lost before the source finds it.
	if err != nil || st.LostTotal() != 0 || !st.Bound {
		t.Errorf("got stats %+v, error %v; want no losses, Bound set", st, err)
	}
}

// TestFormats prints the contents of testdata/format.
func TestFormats(t *testing.T) {
	if !*printFormats {
		t.Skip("needs the flag -formats")
	}
	s := open(t, Options{})
	fs, err := tracefs.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer fs.Close()
	for _, set := range s.sets {
		for _, p := range set.probes {
			b, err := fs.ReadFile(filepath.Join("events", p.def.group, p.def.name, "format"))
			if err != nil {
				t.Error(err)
			}
			fmt.Printf("@@%s\n%s@@\n%s\n@@\n", p.def.name, b, p.def.String())
		}
	}
}

// The exit hook for older kernels reports the same events as the preferred hook.
func TestOlderEnds(t *testing.T) {
	open(t, Options{}).Close()
	all := families[familyExit].hooks
	families[familyExit].hooks = all[1:]
	defer func() { families[familyExit].hooks = all }()
	conform.Score(t, open(t, Options{}), "fork-exec-exit", "leader-first", "end-together", "exit-group-thread")
}

// smallSink is a sink for three events.
type smallSink struct{ conform.Events }

func (f *smallSink) Room() int { return 3 - len(f.Events) }

// If the sink is full, the events that stay in the rings of all CPUs are later than the events in
// the sink.
func TestOldestFirst(t *testing.T) {
	cpus, err := scenario.CPUs()
	if err != nil || len(cpus) < 2 {
		t.Skip("needs two CPUs: ", cpus, err)
	}
	s := open(t, Options{})
	conform.Drain(t, s)
	for i := range 8 {
		for range 5 {
			if _, _, err := scenario.Brief(cpus[i%2]); err != nil {
				t.Fatal(err)
			}
		}
	}
	var last uint64
	for n := 1; n > 0; {
		part := &smallSink{}
		if err := s.Populate(part); err != nil {
			t.Fatal(err)
		}
		n = len(part.Events)
		before := last
		for _, ev := range part.Events {
			if ev.Time < before {
				t.Errorf("%s of %d on CPU %d follows events that are %d ns later", ev.Kind, ev.PID, ev.CPU, before-ev.Time)
			}
			last = max(last, ev.Time)
		}
	}
	if last == 0 {
		t.Error("got no events")
	}
}
