package perf

import (
	"encoding/binary"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// newTally returns a tally of one event with a ring that needs no kernel. count sets the results of
// the next reads of the hit counter.
func newTally(t *testing.T) (tally *Tally, r *Ring, count func(counts ...uint64)) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fds[0]); unix.Close(fds[1]) })
	tally, r = &Tally{Last: 1}, newFakeRing(4096)
	tally.Add(0, &Event{fds[0]})
	return tally, r, func(counts ...uint64) {
		for _, n := range counts {
			var b [8]byte
			binary.NativeEndian.PutUint64(b[:], n)
			if _, err := unix.Write(fds[1], b[:]); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func all(Record) bool { return true }

// A hit without a sample is reported as lost only after the longest time that the kernel needs to
// write the sample.
func TestTallyUnderWay(t *testing.T) {
	tally, r, count := newTally(t)
	if tally.AddSample(0, 1) != 0 {
		t.Fatal("got missing samples before the first")
	}

	tally.MarkSuspect()
	count(3) // the second is lost, and the third is being written
	g, ok := tally.Gap(0, r, all)
	if !ok || g.Count != 1 {
		t.Errorf("got a gap of %d samples, ok %v; want 1", g.Count, ok)
	}
	r.put(RecordSample, make([]byte, 16)) // the third sample arrives
	count(3)
	if n, _ := tally.Unreported(r, all); n != 1 {
		t.Errorf("got %d lost, want 1", n)
	}
	r.Next()
	r.Release()
	if missing := tally.AddSample(0, 3); missing != 1 {
		t.Errorf("got %d missing, want 1", missing)
	}

	tally.MarkSuspect()
	count(5, 5, 5) // two more hits are lost
	if g, ok := tally.Gap(0, r, all); !ok || g.Count != 1 || tally.Suspected() == 0 {
		t.Errorf("got a gap of %d, ok %v; want 1", g.Count, ok)
	}
	if n, exact := tally.Unreported(r, all); n != 1 || exact {
		t.Errorf("got %d lost, exact %v; want 1, false", n, exact)
	}
	time.Sleep(writing)
	if g, ok := tally.Gap(0, r, all); !ok || g.Count != 1 || tally.Suspected() != 0 {
		t.Errorf("got a second gap of %d, ok %v; want 1", g.Count, ok)
	}
	if n, exact := tally.Unreported(r, all); n != 2 || !exact {
		t.Errorf("got %d lost, exact %v; want 2, true", n, exact)
	}
}

// A certain loss is reported even while the kernel may still write the samples of other hits.
func TestTallyStaysLost(t *testing.T) {
	tally, r, count := newTally(t)
	tally.MarkSuspect()
	count(1, 1, 2) // the first is lost
	if g, ok := tally.Gap(0, r, all); ok {
		t.Fatalf("got a gap of %d, but its sample may be being written", g.Count)
	}
	time.Sleep(writing)
	if n, exact := tally.Unreported(r, all); n != 1 || !exact {
		t.Fatalf("got %d lost, exact %v; want 1, true", n, exact)
	}
	r.put(RecordSample, make([]byte, 16)) // the second sample arrives
	if g, ok := tally.Gap(0, r, all); !ok || g.Count != 1 {
		t.Errorf("got a gap of %d, ok %v; want 1", g.Count, ok)
	}
}

// Samples that arrive while the counts are read do not reduce the reported loss.
func TestTallyMeanwhile(t *testing.T) {
	tally, r, count := newTally(t)
	tally.MarkSuspect()
	count(3)
	if g, _ := tally.Gap(0, r, all); g.Count != 2 {
		t.Fatalf("got a gap of %d, want 2", g.Count)
	}
	tally.MarkSuspect()
	r.put(RecordSample, make([]byte, 16))
	r.put(RecordSample, make([]byte, 16))
	count(4) // read before the second sample arrived
	if n, _ := tally.Unreported(r, all); n != 2 {
		t.Errorf("got %d lost, want the reported 2", n)
	}
}

// An offline CPU writes no samples. All hits without a sample are reported as lost at once.
func TestTallyFinal(t *testing.T) {
	for _, reported := range []uint64{0, 1} {
		tally, r, count := newTally(t)
		tally.MarkSuspect()
		count(1 + reported) // the sample of the last hit may still arrive
		if g, ok := tally.Gap(0, r, all); ok != (reported > 0) || g.Count != reported {
			t.Fatalf("got a gap of %d, want %d", g.Count, reported)
		}
		count(1 + reported)
		g, lost, ok := tally.Final(3)
		if !ok || g.Count != 1 || g.CPU != 3 || lost != 1+reported {
			t.Errorf("got %d lost, want %d; gap %+v, ok %v", lost, 1+reported, g, ok)
		}
	}
}
