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

// A storm of lives has processes of each lifetime, all of which are told, and one that has a length
// ends after it.
func TestStormsOfLives(t *testing.T) {
	lives := func(s Storm) map[string]int {
		t.Helper()
		r, err := Start(s.Scenario())
		if err != nil {
			t.Fatal(err)
		}
		all, err := r.Wait(20 * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		n := make(map[string]int)
		for _, l := range all[0].Lives {
			if len(l.Events) == 3 && l.Events[1].Kind == engine.KindExec && l.Events[2].Kind == engine.KindExit {
				n[l.Events[1].State.Value[engine.FieldComm]]++
			}
		}
		return n
	}
	n := lives(Storm{Processes: 4 * len(Lifetimes), Workers: 2, Mode: Lives, Rate: 200})
	for _, lifetime := range Lifetimes {
		if n[LifeName(lifetime)] != 4 {
			t.Errorf("%d of %v, not 4", n[LifeName(lifetime)], lifetime)
		}
	}
	began := time.Now()
	n = lives(Storm{Processes: 1 << 20, Workers: 2, Mode: ForkExecExit, Length: 100 * time.Millisecond, Rate: 300})
	if took := time.Since(began); n["storm"] < 2 || n["storm"] > 60 || took > 5*time.Second {
		t.Errorf("%d lives in %v", n["storm"], took)
	}
}
