package tracepoint

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/conform"
	"github.com/quark-linux/quark/internal/clock"
)

func descriptors() int { d, _ := os.ReadDir("/proc/self/fd"); return len(d) }

// perfEvents counts the perf events that this process has.
func perfEvents() (n int) {
	d, _ := os.ReadDir("/proc/self/fd")
	for _, fd := range d {
		if to, _ := os.Readlink("/proc/self/fd/" + fd.Name()); strings.Contains(to, "perf_event") {
			n++
		}
	}
	return n
}

func TestClose(t *testing.T) {
	open(t, source.Options{}, Options{}).Close() // the first Open opens descriptors that stay
	before := descriptors()
	begin := time.Now()
	s := open(t, source.Options{}, Options{})
	took := time.Since(begin)
	if perfEvents() < 4 {
		t.Errorf("%d perf events", perfEvents())
	}
	begin = time.Now()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	t.Logf("opened in %v, closed in %v", took, time.Since(begin))
	if after := descriptors(); after != before || perfEvents() != 0 {
		t.Errorf("%d descriptors before, %d after, %d of perf events", before, after, perfEvents())
	}
	if err := s.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if s.Populate(engine.NewBuffer(1)) == nil || s.FD() != -1 || s.Arm(true) {
		t.Error("a closed source works")
	}
	if _, err := s.Stats(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("its statistics: %v", err)
	}
}

// TestFailedOpen makes Open fail half way for lack of descriptors. Nothing may be left.
func TestFailedOpen(t *testing.T) {
	open(t, source.Options{}, Options{}).Close()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	before := descriptors()
	for n := uint64(before); n < uint64(before)+14; n++ {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: limit.Max}); err != nil {
			t.Fatal(err)
		}
		s, err := Open(source.Options{}, Options{})
		unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
		if err == nil {
			s.Close()
		} else if n == uint64(before) {
			t.Log(err)
		}
		if after := descriptors(); after != before || err == nil && n < uint64(before)+8 {
			t.Errorf("limit %d: %v; %d descriptors before, %d after", n, err, before, after)
		}
	}
}

func TestDropPrivileges(t *testing.T) {
	open(t, source.Options{}, Options{}).Close()
	c, _ := conform.WantDropped(t, "dropped")
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
}

// Without privileges the error says what is needed.
func TestUnprivileged(t *testing.T) {
	open(t, source.Options{}, Options{}).Close()
	out, err := conform.Child("nobody").Output()
	if err == nil || !strings.Contains(string(out), "tracefs") ||
		!strings.Contains(string(out), "needs CAP_SYS_ADMIN") && !strings.Contains(string(out), "needs root") {
		t.Errorf("%v: %s", err, out)
	}
}

// While nobody reads, every event that a ring has no room for is counted, and gaps tell of all.
func TestLoss(t *testing.T) {
	s := open(t, source.Options{Kinds: engine.EventFork | engine.EventExec | engine.EventExit}, Options{RingSize: 1})
	conform.Drain(t, s)
	before, err := s.Stats()
	if err != nil {
		t.Fatal(err)
	}
	var handed, told uint64
	read := func() {
		var evs conform.Events
		if err := s.Populate(&evs); err != nil {
			t.Fatal(err)
		}
		for _, ev := range evs {
			switch {
			case ev.Kind != engine.KindGap:
				handed++
			case ev.Gap.From > ev.Gap.To || ev.Gap.Cause != engine.LossRingFull:
				t.Errorf("%+v", *ev.Gap)
			default:
				told += ev.Gap.Count
			}
		}
	}
	for range 3 {
		for range 40 {
			conform.Child("exit").Run()
		}
		read()
	}
	var st engine.SourceStats
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		read()
		if st, err = s.Stats(); err != nil {
			t.Fatal(err)
		}
		// Ends of threads that nobody asked for are read, and no events.
		if lost := st.LostTotal(); lost > 0 && told == lost && st.Produced-before.Produced == handed+lost && st.Bound == before.Bound || time.Now().After(end) {
			break
		}
	}
	t.Logf("produced %d, delivered %d, lost %v, told %d, bound %v", st.Produced-before.Produced, handed, st.Lost, told, st.Bound)
	if lost := st.LostTotal(); lost == 0 || told != lost || st.Produced-before.Produced != handed+lost || st.Bound != before.Bound {
		t.Error("they do not add up")
	}
	if st.Produced-before.Produced < 3*120 || st.Lost[engine.LossDecode] != 0 {
		t.Errorf("produced %d of 120 processes, lost %v", st.Produced-before.Produced, st.Lost)
	}
	// The threads that there are were learned anew, and an end is told.
	c := conform.Child("exit")
	conform.Run(t, s, c).One(t, c.Process.Pid, engine.KindExit)
}

// FD wakes a reader that waits with the next event, and once more when the event is certain.
func TestArm(t *testing.T) {
	s := open(t, source.Options{}, Options{})
	wait := func(ms int) bool {
		fds := []unix.PollFd{{Fd: int32(s.FD()), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, ms)
		for err == unix.EINTR {
			n, err = unix.Poll(fds, ms)
		}
		return n == 1
	}
	for _, idle := range []bool{true, false} {
		var seen conform.Events
		c := conform.Child("exit")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(5 * time.Second); len(seen.Of(c.Process.Pid, engine.KindExit)) == 0; {
			if s.Arm(idle) && !wait(2000) || time.Now().After(end) {
				t.Fatalf("idle %v: nobody was woken, seen is %s", idle, seen.Kinds(c.Process.Pid))
			}
			seen = append(seen, conform.Drain(t, s)...)
		}
		c.Wait()
		if oldest, ok := s.Held(); ok && oldest > clock.Monotonic() {
			t.Errorf("an event of the future is held: %d", oldest)
		}
	}
}

// small is a sink with little room.
type small struct{ conform.Events }

func (s *small) Room() int { return 5 - len(s.Events) }

// What a sink has no room for is younger than what it gets, and nothing gets lost.
func TestOldestFirst(t *testing.T) {
	s := open(t, source.Options{}, Options{})
	conform.Drain(t, s)
	pids := make(map[uint32]bool)
	for range 30 {
		c := conform.Child("exit")
		c.Run()
		pids[uint32(c.Process.Pid)] = true
	}
	var last uint64
	ends := 0
	for end := time.Now().Add(10 * time.Second); ends < 30 && time.Now().Before(end); {
		part := &small{}
		if err := s.Populate(part); err != nil {
			t.Fatal(err)
		}
		for _, ev := range part.Events {
			if ev.Time < last {
				t.Errorf("%s of %d comes after events that are %d ns younger", ev.Kind, ev.PID, last-ev.Time)
			}
			if last = max(last, ev.Time); ev.Kind == engine.KindExit && pids[ev.PID] {
				ends++
			}
		}
	}
	if ends != 30 {
		t.Errorf("%d of 30 ends", ends)
	}
}

func TestHotplug(t *testing.T) {
	const control = "/sys/devices/system/cpu/cpu1/online"
	set := func(v string) error { return os.WriteFile(control, []byte(v), 0) }
	if os.Getenv("QUARK_INITRAMFS") != "1" {
		t.Skip("it takes a CPU away, which is for guests only (QUARK_INITRAMFS=1)")
	}
	if _, err := os.Stat(control); err != nil {
		t.Skip("no second CPU that can be taken offline")
	}
	s := open(t, source.Options{}, Options{})
	if err := set("0"); err != nil {
		t.Skip(err)
	}
	defer set("1")
	conform.Drain(t, s)
	if len(s.cpus) != 1 || len(s.rings) != 2 {
		t.Errorf("%d CPUs and %d rings with one CPU", len(s.cpus), len(s.rings))
	}
	if err := set("1"); err != nil {
		t.Fatal(err)
	}
	var evs conform.Events
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end) && len(evs) == 0; time.Sleep(5 * time.Millisecond) {
		s.Populate(&evs)
		evs = slices.DeleteFunc(evs, func(ev *engine.RawEvent) bool { return ev.Kind != engine.KindGap || ev.Gap.CPU != 1 })
	}
	if len(evs) == 0 || len(s.cpus) != 2 || len(s.rings) != 4 {
		t.Errorf("%d gaps of the CPU, %d CPUs, %d rings: %v", len(evs), len(s.cpus), len(s.rings), s.Capabilities().Notes)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var one, all unix.CPUSet
	one.Set(1)
	all.Set(0)
	all.Set(1)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		t.Fatal(err)
	}
	c := conform.Child("exit")
	seen := conform.Run(t, s, c)
	unix.SchedSetaffinity(0, &all)
	for _, k := range []engine.Kind{engine.KindFork, engine.KindExec, engine.KindExit} {
		if ev := seen.One(t, c.Process.Pid, k); ev.CPU != 1 {
			t.Errorf("%v on CPU %d", k, ev.CPU)
		}
	}
	if st, err := s.Stats(); err != nil || !st.Bound {
		t.Errorf("%+v, %v", st, err)
	}
}

// A pid namespace of its own and wrong options are told from a kernel that lacks something.
func TestValidate(t *testing.T) {
	var wrong *engine.OptionError
	if err := Validate(Options{RingSize: -1}); !errors.As(err, &wrong) || wrong.Option != "RingSize" {
		t.Errorf("%v", err)
	}
	if err := Validate(Options{}); err != nil {
		t.Error(err)
	}
}

func BenchmarkPopulate(b *testing.B) {
	s := open(b, source.Options{}, Options{})
	var evs conform.Events
	for b.Loop() {
		if err := s.Populate(&evs); err != nil {
			b.Fatal(err)
		}
	}
}
