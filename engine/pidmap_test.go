package engine

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestPIDMapEqualsMap sets, replaces and deletes at random and compares with a map.
func TestPIDMapEqualsMap(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var m pidMap[int]
		oracle := map[uint32]*int{}
		pids := uint32(1 + rnd.IntN(400))
		apart := uint32(1 + rnd.IntN(2*perGroup)) // a group has all its pids, or only one
		for step := range 20000 {
			// The map grows first and then shrinks, so that clusters form and close
			// again.
			pid, set := rnd.Uint32N(pids)*apart, rnd.IntN(20000) > step
			if v := oracle[pid]; m.get(pid) != v {
				t.Fatalf("seed %d step %d: pid %d: got %v, want %v", seed, step, pid, m.get(pid), v)
			}
			if set {
				v := new(int)
				oracle[pid] = v
				*m.place(pid) = v
			} else if oracle[pid] != nil {
				delete(oracle, pid)
				m.delete(pid)
			}
			if m.len != len(oracle) {
				t.Fatalf("seed %d step %d: got %d values, want %d", seed, step, m.len, len(oracle))
			}
			if step%1000 == 0 {
				if got, want := slices.Sorted(m.pids()), slices.Sorted(maps.Keys(oracle)); !slices.Equal(got, want) {
					t.Fatalf("seed %d step %d: got pids %v, want %v", seed, step, got, want)
				}
			}
		}
	}
}
