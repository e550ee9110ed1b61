package scenario

import (
	"testing"
	"time"

	"github.com/quark-linux/quark/engine"
)

// A storm records the fork, exec and exit of each process, and ends after its length.
func TestStorm(t *testing.T) {
	began := time.Now()
	processes, _, err := Storm{Processes: 1 << 20, Workers: 2, Length: 100 * time.Millisecond, Rate: 300}.Run(20*time.Second, nil)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, l := range processes {
		if len(l.Events) == 3 && l.Events[1].State.Value[engine.FieldComm] == StormName && l.Events[2].Kind == engine.KindExit {
			n++
		}
	}
	if took := time.Since(began); n < 2 || n > 60 || took > 5*time.Second {
		t.Errorf("got %d processes in %v", n, took)
	}
}
