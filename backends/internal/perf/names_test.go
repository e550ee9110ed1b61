package perf

import (
	"testing"
	"time"
)

// TestNames: a name that is lost is told from births and ends that are, from one that waits in the
// ring and from one that is being written; and it is told once.
func TestNames(t *testing.T) {
	tally, r, count := oneEvent(t)
	var n Names
	n.Suspect(1)
	if n.Suspected() != 0 {
		t.Error("without a counter one is suspected")
	}
	n.Count(tally.events[0].event)
	settle := func(step string, counted, lost uint64, settled bool) {
		t.Helper()
		n.Suspect(7)
		count(counted)
		if l, s := n.Settle(r); l != lost || s != settled {
			t.Errorf("%s: lost %d, settled %v; want %d, %v", step, l, s, lost, settled)
		}
		if (n.Suspected() == 0) != settled {
			t.Errorf("%s: suspected since %d", step, n.Suspected())
		}
	}
	settle("nothing has happened", 0, 0, true)
	r.put(RecordComm, make([]byte, 16))
	r.put(RecordFork, make([]byte, 16))
	settle("one waits", 1, 0, true)
	r.Next()
	r.Next()
	r.Release()
	n.Saw()
	settle("it was read", 1, 0, true)
	settle("one may be under way", 2, 0, false)
	r.put(RecordComm, make([]byte, 16))
	settle("it came", 2, 0, true)
	settle("two more are lost", 4, 2, true)
	settle("they were told", 4, 0, true)
	settle("one may be under way", 5, 0, false)
	time.Sleep(writing)
	settle("it is not", 5, 1, true)
	settle("two hits were kept back", 3, Unknown, true)
	settle("they were told", 3, 0, true)
}
