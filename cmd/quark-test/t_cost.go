package main

import (
	"os"
	"strconv"
	"time"

	"github.com/quark-linux/quark/fidelity/meter"
	"github.com/quark-linux/quark/fidelity/scenario"
)

// costEnv is the variable that says how many processes to start. 2000 are enough to compare
// CPU times, which takes minutes under software emulation.
const costEnv = "QUARK_TEST_PROCESSES"

// costRateEnv is the variable that says how many of them to start in a second. Without it they
// start as fast as can be, which wakes a monitor more often than most machines do.
const costRateEnv = "QUARK_TEST_RATE"

// costLimit is how much more CPU time than eBPF a backend may take.
var costLimit = map[string]float64{"kprobe": 1.5}

// cost lets monitors count processes that fork, exec and exit: no event may be lost. A backend
// that has a limit runs beside eBPF, so that both see the same load at the same time and a busy
// machine slows both; each is the first to start for half of the load. The time spent in probes is
// the CPU time of the load, not of the monitor.
// To measure, in a guest:
//
//	QUARK_TEST_PROCESSES=5000 quark-test -v --deadline 10m -k t_cost
func cost(t *test) {
	asked := os.Getenv(costEnv)
	if asked == "" {
		t.Skipf("it measures, for minutes, when asked to: %s is how many processes", costEnv)
	}
	n, err := strconv.Atoi(asked)
	if err != nil || n < 1 {
		t.Fatalf("%s is %q: a number of processes is wanted", costEnv, asked)
	}
	rate := 0
	if asked := os.Getenv(costRateEnv); asked != "" {
		if rate, err = strconv.Atoi(asked); err != nil || rate < 1 {
			t.Fatalf("%s is %q: a number of processes a second is wanted", costRateEnv, asked)
		}
	}
	names := []string{t.backend()}
	limit := costLimit[t.backend()]
	if limit > 0 {
		names = append(names, "ebpf")
	}
	// The monitor that starts first pays for what the machine does once: code is loaded, an
	// emulator translates it. Each is the first for its share.
	used := make([]time.Duration, len(names))
	for first := range names {
		share := n / len(names)
		if first == 0 {
			share += n % len(names)
		}
		for i, u := range costOf(t, names, first, share, rate) {
			used[i] += u
		}
	}
	for i, u := range used {
		t.Logf("%s: %.1f us of CPU time each", names[i], u.Seconds()*1e6/float64(n))
	}
	if len(used) == 2 {
		ratio := used[0].Seconds() / used[1].Seconds()
		t.Logf("%.2f of the CPU time of ebpf", ratio)
		if ratio > limit {
			t.Errorf("%s takes %.2f of the CPU time of ebpf, which may be %.1f", t.backend(), ratio, limit)
		}
	}
}

// costOf starts n processes under all monitors, of which that at first starts first, and returns
// the CPU time of each.
func costOf(t *test, names []string, first, n, rate int) []time.Duration {
	stops := make([]func() (meter.Usage, error), len(names))
	t.Waiting("the load")
	load := scenario.Storm{Processes: n, Workers: 2, Rate: rate, Mode: scenario.ForkExecExit, Bare: true}
	took, err := load.Time(time.Until(t.Deadline), func() (err error) {
		for i := range names {
			at := (first + i) % len(names)
			if stops[at], err = meter.Start(names[at]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Errorf("%v", err)
	}
	made := float64(n) / took.Seconds()
	t.Logf("%d processes in %v, %.0f a second", n, took.Round(time.Millisecond), made)
	if made < 0.95*float64(rate) {
		t.Logf("this machine does not make %d a second", rate)
	}
	used := make([]time.Duration, len(names))
	for i, stop := range stops {
		if stop == nil {
			continue
		}
		t.Waiting("the monitor of " + names[i] + " to end")
		u, err := stop()
		if err != nil {
			t.Fatalf("the monitor of %s: %v", names[i], err)
		}
		t.Logf("%s: %d events, %d lost", names[i], u.Raw, u.Lost)
		if u.Lost != 0 || u.Raw < 3*uint64(n) {
			t.Errorf("%s counts %d events of at least %d and %d lost", names[i], u.Raw, 3*n, u.Lost)
		}
		used[i] = u.CPU
	}
	return used
}
