package perf

import (
	"encoding/binary"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// oneEvent returns a tally of one event, which writes to a ring without a kernel. The caller sets
// the next counts.
func oneEvent(t *testing.T) (tally *Tally, r *Ring, count func(counts ...uint64)) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fds[0]); unix.Close(fds[1]) })
	tally, r = &Tally{Last: 1}, fake(4096)
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

// TestTallyUnderWay: a counted hit is not reported as lost if its sample is being written while the
// counts are read. The last hit is reported once it can't be under way any more.
func TestTallyUnderWay(t *testing.T) {
	tally, r, count := oneEvent(t)
	if tally.Saw(0, 1) != 0 {
		t.Fatal("the first sample misses some")
	}

	tally.Suspect()
	count(3) // the second is lost, and the third under way
	g, ok := tally.Gap(0, r, all)
	if !ok || g.Count != 1 {
		t.Errorf("told are %d of 1 lost sample: %v", g.Count, ok)
	}
	r.put(RecordSample, make([]byte, 16)) // it arrives
	count(3)
	if n, _ := tally.Unreported(r, all); n != 1 {
		t.Errorf("%d are lost", n)
	}
	r.Next()
	r.Release()
	if missing := tally.Saw(0, 3); missing != 1 {
		t.Errorf("%d are missing", missing)
	}

	tally.Suspect()
	count(5, 5, 5) // two are lost
	if g, ok := tally.Gap(0, r, all); !ok || g.Count != 1 || tally.Suspected() == 0 {
		t.Errorf("told are %d of 1 or 2: %v", g.Count, ok)
	}
	if n, exact := tally.Unreported(r, all); n != 1 || exact {
		t.Errorf("%d are lost, exactly %v", n, exact)
	}
	time.Sleep(writing)
	if g, ok := tally.Gap(0, r, all); !ok || g.Count != 1 || tally.Suspected() != 0 {
		t.Errorf("told are %d more of 1: %v", g.Count, ok)
	}
	if n, exact := tally.Unreported(r, all); n != 2 || !exact {
		t.Errorf("%d are lost, exactly %v", n, exact)
	}
}

// TestTallyStaysLost: certain losses are reported, though other hits are under way by then.
func TestTallyStaysLost(t *testing.T) {
	tally, r, count := oneEvent(t)
	tally.Suspect()
	count(1, 1, 2) // the first is lost
	if g, ok := tally.Gap(0, r, all); ok {
		t.Fatalf("told are %d, which may be under way", g.Count)
	}
	time.Sleep(writing)
	if n, exact := tally.Unreported(r, all); n != 1 || !exact {
		t.Fatalf("%d are lost, exactly %v", n, exact)
	}
	r.put(RecordSample, make([]byte, 16)) // the second comes
	if g, ok := tally.Gap(0, r, all); !ok || g.Count != 1 {
		t.Errorf("told are %d of 1: %v", g.Count, ok)
	}
}

// TestTallyMeanwhile: samples that come while the counts are read do not make the loss less than
// the gaps have reported.
func TestTallyMeanwhile(t *testing.T) {
	tally, r, count := oneEvent(t)
	tally.Suspect()
	count(3)
	if g, _ := tally.Gap(0, r, all); g.Count != 2 {
		t.Fatalf("told are %d", g.Count)
	}
	tally.Suspect()
	r.put(RecordSample, make([]byte, 16))
	r.put(RecordSample, make([]byte, 16))
	count(4) // the second sample came after this
	if n, _ := tally.Unreported(r, all); n != 2 {
		t.Errorf("%d are lost, told were 2", n)
	}
}

// TestTallyFinal: for an offline CPU all hits without a sample are reported at once, since none is
// being written.
func TestTallyFinal(t *testing.T) {
	for _, told := range []uint64{0, 1} {
		tally, r, count := oneEvent(t)
		tally.Suspect()
		count(1 + told) // one may be under way
		if g, ok := tally.Gap(0, r, all); ok != (told > 0) || g.Count != told {
			t.Fatalf("told are %d, not %d", g.Count, told)
		}
		count(1 + told)
		g, lost, ok := tally.Final(3)
		if !ok || g.Count != 1 || g.CPU != 3 || lost != 1+told {
			t.Errorf("%d of %d lost, told are %+v, %v", lost, 1+told, g, ok)
		}
	}
}
