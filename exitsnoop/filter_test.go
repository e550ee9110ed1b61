package exitsnoop

import (
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"unsafe"
)

// recount returns the expected filter if no call was interrupted.
func recount(t *testing.T, s *Store) (want programsFilter) {
	t.Helper()
	tasks, err := s.allTasks()
	ok(t, err)
	for pid := range tasks {
		want.Traced[pid%uint32(len(want.Traced))]++
	}
	return want
}

func sameFilter(t *testing.T, s *Store) {
	t.Helper()
	if want := recount(t, s); *s.filter.counts() != want {
		for i, n := range s.filter.counts().Traced {
			if n != want.Traced[i] {
				t.Errorf("slot %d: got count %d, want %d", i, n, want.Traced[i])
			}
		}
	}
}

// TestFilterCounts checks that the filter counts the tracing entries after any operations, with
// pids of few slots, from several goroutines.
func TestFilterCounts(t *testing.T) {
	s := private(t, Options{MaxTracing: 30})
	slots := uint32(unsafe.Sizeof(programsFilter{}) / 4)
	var all sync.WaitGroup
	for seed := range uint64(4) {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, 1))
			for range 5000 {
				pid := 1<<24 + r.Uint32N(5) + slots*r.Uint32N(8)
				if r.IntN(2) == 0 {
					s.putTask(pid, new(programsTask)) // may exist, or be full
				} else {
					s.deleteTask(pid) // may not exist
				}
			}
		})
	}
	all.Wait()
	sameFilter(t, s)
}

// Two pids share a slot: the end of one keeps the other traced.
func TestFilterShared(t *testing.T) {
	s := private(t, Options{})
	slots := uint32(unsafe.Sizeof(programsFilter{}) / 4)
	for _, otherFirst := range []bool{true, false} {
		pid := sleeper(t)
		other := pid + 1<<10*slots
		if otherFirst {
			ok(t, s.putTask(other, new(programsTask)))
		}
		id, err := s.TraceProcess(pid)
		ok(t, err)
		if !otherFirst {
			ok(t, s.putTask(other, new(programsTask)))
			ok(t, s.deleteTask(other))
		}
		sameFilter(t, s)
		end(t, pid)
		_, err = s.GetExitedEvent(id)
		ok(t, err)
		sameFilter(t, s) // the program has decremented the count
		if otherFirst {
			ok(t, s.deleteTask(other))
		}
	}
	if recount(t, s) != (programsFilter{}) {
		t.Error("a process is still traced")
	}
}

// A new filter for existing maps counts their entries.
func TestFilterRefilled(t *testing.T) {
	dir := root(t)
	p := newPinDir(dir)
	ok(t, EnsureRunning(dir))
	s := pinnedStore(t, dir)
	pid := sleeper(t)
	ok(t, s.Trace(pid, &TaskInfo{TraceID: 1}))
	ok(t, s.Close())
	ok(t, os.Remove(p.pin(programsMapPidFilter)))
	unpinAll(t, p, linkNames...)
	ok(t, EnsureRunning(dir))
	s = pinnedStore(t, dir)
	sameFilter(t, s)
	end(t, pid)
	_, err := s.GetExitedEvent(1)
	ok(t, err)
	sameFilter(t, s)
}
