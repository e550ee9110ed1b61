package fidelity

import (
	"os"
	"testing"

	"github.com/quark-linux/quark/fidelity/monitor"
)

func TestMain(m *testing.M) {
	Main()
	os.Exit(m.Run())
}

// TestDifferential runs all backends that work on this host, and quark-mon as a monitor, in one
// run. It fails unless the capability tables explain each difference from ground truth.
func TestDifferential(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	var o Options
	if path, err := buildQuarkMon(t); err != nil {
		t.Log(err)
	} else {
		o.Monitors = []*monitor.Monitor{quarkMon(t, path+" -b -j -g -t -s --events all --hold-time 250ms")}
	}
	r, err := RunScenarios(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range o.Monitors {
		t.Run("quark-mon", func(t *testing.T) { checkQuarkMon(t, m, r) })
	}
	for _, a := range r.Absent {
		t.Logf("not tested: %s: %s", a.Backend, a.Reason)
	}
	for _, b := range r.Backends {
		all := b.Total.All()
		t.Logf("%s: %d of %d events, fields %+v, joined %d, slow %d, delay %d %d %d", b.Name, b.Total.Seen, b.Total.Truth, all, b.Total.Joined, b.Total.Slow, b.Delay.P50, b.Delay.P99, b.Delay.Max)
		for _, s := range b.Scenarios {
			if s.Skip != "" {
				t.Logf("%s: skipped: %s", s.Scenario, s.Skip)
			}
			if s.Perfect() {
				continue
			}
			t.Errorf("%s, %s: got %d of %d events seen, %d phantoms, %d duplicates, %d inversions, %d unjoined, fields %+v",
				b.Name, s.Scenario, s.Seen, s.Truth, s.Phantoms, s.Duplicates, s.Inversions, s.Unjoined, s.All())
			for _, f := range s.Findings {
				t.Log(f)
			}
		}
	}
}
