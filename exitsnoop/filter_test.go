package exitsnoop

import (
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"unsafe"
)

// recount is what the filter has to be if nobody was interrupted.
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
	if want := recount(t, s); *s.filter.view != want {
		for i, n := range s.filter.view.Traced {
			if n != want.Traced[i] {
				t.Errorf("slot %d counts %d, want %d", i, n, want.Traced[i])
			}
		}
	}
}

// Whatever is done to the tracing entries, the filter counts them; with pids of
// few slots, by several at once.
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
					s.putTask(pid, new(programsTask)) // may be there, or full
				} else {
					s.deleteTask(pid) // may not be there
				}
			}
		})
	}
	all.Wait()
	sameFilter(t, s)
}

// Two pids of a slot: the end of one leaves the other traced.
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
		sameFilter(t, s) // the program has counted down
		if otherFirst {
			ok(t, s.deleteTask(other))
		}
	}
	if recount(t, s) != (programsFilter{}) {
		t.Error("something is traced still")
	}
}

// A filter made anew for maps that were there counts what they hold.
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

// A closed filter is left alone.
func TestFilterClosed(t *testing.T) {
	s := private(t, Options{})
	ok(t, s.Close())
	s.filter.up(1)
	s.filter.close()
}
