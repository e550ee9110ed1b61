package tracepoint

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// model is a naive machine: all living threads, each with its process.
type model struct {
	threads map[uint32]uint32 // tid to pid
	next    uint32
}

func (m *model) of(pid uint32) (tids []uint32) {
	for tid, p := range m.threads {
		if p == pid {
			tids = append(tids, tid)
		}
	}
	slices.Sort(tids)
	return tids
}

// TestGroups: a process ends with its last thread, whichever that is, also of processes that were
// learned from /proc.
func TestGroups(t *testing.T) {
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		m, g := &model{threads: make(map[uint32]uint32), next: 1}, new(groups)
		for now := uint64(1); now < 2000; now++ {
			var tids []uint32
			for tid := range m.threads {
				tids = append(tids, tid)
			}
			slices.Sort(tids)
			m.next++
			switch n := rnd.IntN(10); {
			case len(tids) < 3 || n < 2:
				m.threads[m.next] = m.next
				g.born(m.next, m.next, now)
			case n < 5: // a thread
				pid := m.threads[tids[rnd.IntN(len(tids))]]
				m.threads[m.next] = pid
				g.born(pid, m.next, now)
			case n == 5: // exec, by any thread
				tid := tids[rnd.IntN(len(tids))]
				pid := m.threads[tid]
				for _, other := range m.of(pid) {
					delete(m.threads, other)
					if other != tid && g.ended(pid, other) {
						t.Fatalf("seed %d at %d: %d ends by an exec", seed, now, pid)
					}
				}
				m.threads[pid] = pid
				g.executed(pid, now)
			case n == 6 && rnd.IntN(20) == 0:
				g.learn(now, func(add func(pid, tid uint32), leaderDone func(pid uint32)) {
					for _, tid := range tids {
						pid := m.threads[tid]
						if len(m.of(pid)) == 1 && tid == pid {
							continue
						}
						add(pid, tid)
						if m.threads[pid] != pid {
							leaderDone(pid)
						}
					}
				})
			default:
				tid := tids[rnd.IntN(len(tids))]
				pid := m.threads[tid]
				delete(m.threads, tid)
				if over := g.ended(pid, tid); over != (len(m.of(pid)) == 0) {
					t.Fatalf("seed %d at %d: %d of %d ends the process: %v, left are %v", seed, now, tid, pid, over, m.of(pid))
				}
			}
		}
		for tid, pid := range m.threads {
			delete(m.threads, tid)
			g.ended(pid, tid)
		}
		if len(g.byPID.In) != 0 {
			t.Errorf("seed %d: left behind: %v", seed, g.byPID.In)
		}
	}
}

// TestGroupsLearned: records of before the look at /proc, which come after it, change nothing that
// it has shown.
func TestGroupsLearned(t *testing.T) {
	g := new(groups)
	g.learn(10, func(add func(pid, tid uint32), leaderDone func(pid uint32)) {
		add(1, 1)
		add(1, 2)
		leaderDone(1)
	})
	g.born(1, 1, 5)    // the process was born before
	g.executed(1, 6)   // has executed
	g.born(1, 3, 7)    // and had a thread that has ended
	if g.ended(1, 3) { // whose record comes
		t.Error("the process ends with a thread of before")
	}
	if !g.ended(1, 2) {
		t.Error("the process does not end with its last thread")
	}
	// A thread that had begun to end at the look is not known, and may be the last.
	g.learn(20, func(add func(pid, tid uint32), leaderDone func(pid uint32)) { leaderDone(4) })
	if !g.ended(4, 5) || g.ended(4, 6) {
		t.Error("the process does not end with a thread that was about to")
	}
}
