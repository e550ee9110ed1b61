package procfs

import (
	"math/rand/v2"
	"testing"
)

func TestClockNote(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var c BootClock
		var mono, suspended, slack uint64
		slack = 1 << 62
		for range 100 {
			mono += rnd.Uint64N(1e9)
			if rnd.IntN(20) == 0 {
				suspended += 1e9 + rnd.Uint64N(1e9)
				slack = 1 << 62
			}
			boot, delay := mono+suspended, rnd.Uint64N(1e7)
			mono += delay
			slack = min(slack, delay)
			before := c.offset
			c.addReading(boot, mono)
			if c.offset > suspended || c.offset < before || c.before != before || suspended > 0 && c.offset+slack < suspended {
				t.Fatalf("got offset %d after %d; %d ns were spent in suspend, the quickest reading took %d", c.offset, before, suspended, slack)
			}
		}
	}
}
