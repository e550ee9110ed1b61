package tracepoint

import (
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/conform"
)

// overflow lets happen something while nobody reads and rings of new names have hardly room, and
// reads until the loss is settled. It returns what gaps and the statistics tell of it.
func overflow(t *testing.T, shared source.Options, happen func()) (told uint64, gaps int, st engine.SourceStats) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root to open tracepoints")
	}
	s := newSource(shared, 4<<20)
	s.namesSize = os.Getpagesize()
	if err := s.open(); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	conform.Drain(t, s)
	happen()
	agree := func() bool {
		return told == st.LostTotal() && (gaps > 0) == (st.Bound || st.LostTotal() > 0)
	}
	end := time.Now().Add(5 * time.Second)
	for i := 0; i < 60 || !agree() && time.Now().Before(end); i++ {
		if i < 10 { // the kernel tells of a loss before the next record
			conform.Child("exit").Run()
		}
		var evs conform.Events
		if err := s.Populate(&evs); err != nil {
			t.Fatal(err)
		}
		for _, ev := range evs {
			if ev.Kind == engine.KindGap {
				gaps++
				told += ev.Gap.Count
			}
		}
		var err error
		if st, err = s.Stats(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Logf("gaps %d, which tell of %d, lost %d, bound %v", gaps, told, st.LostTotal(), st.Bound)
	if !agree() {
		t.Errorf("%d gaps tell of %d, lost are %d, and maybe more: %v", gaps, told, st.LostTotal(), st.Bound)
	}
	return told, gaps, st
}

// TestBirthsAreNoNames: births and ends for which a ring of new names had no room are no events
// that are lost.
func TestBirthsAreNoNames(t *testing.T) {
	for range 10 { // others may rename themselves meanwhile
		_, _, st := overflow(t, source.Options{}, func() { threads(300) })
		if t.Failed() || !st.Bound && st.LostTotal() == 0 {
			return
		}
	}
	t.Skip("others rename themselves all the time")
}

// TestLostNames: nobody counts new names that are lost, and that some are is told.
func TestLostNames(t *testing.T) {
	_, gaps, st := overflow(t, source.Options{}, func() {
		for range 300 {
			if err := os.WriteFile("/proc/self/comm", []byte("renamed"), 0); err != nil {
				t.Fatal(err)
			}
		}
	})
	if gaps == 0 || !st.Bound {
		t.Errorf("%d gaps, bound %v", gaps, st.Bound)
	}
}

// TestHiddenThreads: threads that nobody asked for are not in the ring of the tracepoints, where
// they could be lost, if the kernel tells the ends of processes from theirs; nor is what is read
// for other events counted.
func TestHiddenThreads(t *testing.T) {
	for name, c := range map[string]struct {
		shared source.Options
		want   bool
	}{
		"hidden": {source.Options{Kinds: engine.EventFork | engine.EventExit}, false},
		"wanted": {source.Options{Kinds: engine.EventFork | engine.EventExit, Threads: true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, c.shared, Options{})
			if s.groups != nil {
				t.Skip("the kernel does not tell the ends of processes")
			}
			least := uint64(0)
			for range 5 {
				before, err := s.Stats()
				if err != nil {
					t.Fatal(err)
				}
				threads(200)
				after, err := s.Stats()
				if err != nil {
					t.Fatal(err)
				}
				if n := after.Produced - before.Produced; least == 0 || n < least {
					least = n
				}
				conform.Drain(t, s)
			}
			if got := least >= 300; got != c.want {
				t.Errorf("%d events were produced by 200 threads", least)
			}
		})
	}
}

// threads makes threads that end, one after the other.
func threads(n int) {
	for range n {
		var done sync.WaitGroup
		done.Add(1)
		go func() {
			runtime.LockOSThread() // it ends with its thread
			done.Done()
		}()
		done.Wait()
	}
}
