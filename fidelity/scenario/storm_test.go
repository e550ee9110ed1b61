package scenario

import (
	"os"
	"testing"
	"time"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
)

// A storm of exits ends processes that were born before it began.
func TestStormOfExits(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	r, err := Start(Storm{Processes: 50, Workers: 3, Mode: Exits}.Scenario())
	if err != nil {
		t.Fatal(err)
	}
	ready := truth.Clock()
	all, err := r.Wait(20 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	ended := 0
	for _, l := range all[0].Lives {
		var born, end uint64
		execs := 0
		for _, e := range l.Events {
			switch e.Kind {
			case engine.KindFork:
				born = e.Latest
			case engine.KindExec:
				execs++
			case engine.KindExit:
				end = e.Earliest
			}
		}
		if execs > 0 {
			continue // a worker, or the director
		}
		if born == 0 || born > ready || end < ready {
			t.Errorf("process %d was born until %d and ended from %d on, the storm began at %d", l.PID, born, end, ready)
		}
		ended++
	}
	if ended != 50 {
		t.Errorf("%d processes ended, not 50", ended)
	}
}
