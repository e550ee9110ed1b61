package bench

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quark-linux/quark/fidelity/meter"
	"github.com/quark-linux/quark/fidelity/monitor/keeper"
	"github.com/quark-linux/quark/fidelity/scenario"
)

func TestMain(m *testing.M) {
	scenario.Main()
	meter.Main()
	keeper.Main()
	os.Exit(m.Run())
}

// Every monitor that can run here is measured under every kind of load.
func TestRun(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	monitors, absent := Monitors(0)
	if len(monitors) == 0 {
		t.Skipf("no monitor runs here: %v", absent)
	}
	const length = 100 * time.Millisecond
	modes := []scenario.Mode{scenario.ForkExit, scenario.ForkExecExit, scenario.Threads, scenario.Exits}
	list, err := Run(Options{
		Monitors: monitors, Modes: modes, Rates: []int{200, 1e9}, Length: length, Patience: time.Minute,
		Progress: func(string) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	// At the rate that the machine gives, and as fast as it can.
	if len(list) != 2*len(monitors)*len(modes) {
		t.Errorf("%d results of %d monitors", len(list), len(monitors))
	}
	for _, r := range list {
		if r.Offered <= 0 || r.Slow <= 0 || r.RSS <= 0 || r.Mode != scenario.Threads && r.CPU <= 0 {
			t.Errorf("not measured: %+v", r)
		}
		// What neighbours do at the same time is lost as well.
		if !slices.Contains(foreign, r.Monitor) && float64(r.Lost) > r.Offered*length.Seconds() {
			t.Errorf("as much lost as there was: %+v", r)
		}
	}
}

func TestMonitorsSayWhyNot(t *testing.T) {
	_, err := meter.Start("nosuch")
	if err == nil || !strings.Contains(err.Error(), `unknown backend "nosuch"`) {
		t.Errorf("error is %v", err)
	}
}

func TestExperiment(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	const n, tries = 450, 10
	for try := range tries {
		list, err := Experiment(t.TempDir(), n, func(float64) {})
		if err != nil {
			t.Skip(err) // before Linux 6.6 there is no filter
		}
		if len(list) != 11 {
			t.Fatalf("results %+v", list)
		}
		// What others do meanwhile is seen as well: with luck not as much as ours.
		noisy := false
		for i, least := range []int{n, 2 * n, 3 * n, 0, n, n, n, 2 * n, 3 * n, 0, n} {
			f := list[i]
			t.Logf("%+v", f)
			if f.CPU < 0 || f.Messages < least || least > 0 && f.CPU == 0 {
				t.Errorf("%+v, of %d processes", f, n)
			}
			noisy = noisy || least == 0 && f.Messages >= n
		}
		if !noisy {
			return
		}
		if try == tries-1 {
			t.Errorf("each time as many messages of failing exits as processes that do not fail: %+v", list)
		}
	}
}
