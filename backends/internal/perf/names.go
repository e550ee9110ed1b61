package perf

import (
	"cmp"

	"github.com/quark-linux/quark/internal/clock"
)

// Names knows how many new names the ring of an event of [OpenComm] had no room for. What the
// kernel says to be lost there can be the births and ends of threads alone: a counter of new names,
// one for each [RecordComm], tells these apart. The zero value has no counter, and knows of none.
type Names struct {
	counter *Event
	seen    uint64 // names that were read, or that are known to be lost
	since   uint64 // not 0: a name of after this time may be lost that Settle has not told of
	odd     uint64 // since when one was counted that is not in the ring
}

// Count makes e the counter, which counts from the ring's beginning on.
func (n *Names) Count(e *Event) { n.counter = e }

// Saw notes that a name was read.
func (n *Names) Saw() { n.seen++ }

// Suspect notes that a name may be lost of after a time.
func (n *Names) Suspect(time uint64) {
	if n.counter != nil {
		n.since = cmp.Or(n.since, time)
	}
}

// Suspected returns since when one may be lost that Settle has not told of, 0 for none.
func (n *Names) Suspected() (since uint64) { return n.since }

// Unknown is a loss of which nobody knows how many it was.
const Unknown = ^uint64(0)

// Settle returns how many were lost since the last call that settled, or [Unknown]. With settled
// false it can't be told yet, and Settle has to be called again. The kernel counts a name before it
// writes the record, see [Tally].
func (n *Names) Settle(r *Ring) (lost uint64, settled bool) {
	isName := func(rec Record) bool { return rec.Type == RecordComm }
	queued := r.Queued(isName)
	count, err := n.counter.Count()
	if r.Queued(isName) != queued {
		return 0, false
	}
	before, now := n.odd, clock.Monotonic()
	n.odd = 0
	switch due := n.seen + queued; {
	case count == due && err == nil:
		n.since = 0
		return 0, true
	case count == due+1 && (before == 0 || now-before < writing):
		n.odd = cmp.Or(before, now)
		return 0, false
	case count > due && err == nil:
		lost = count - due
	default: // BPF programs of others keep hits back, or a task wrote on another CPU
		lost = Unknown
	}
	n.seen, n.since = count-queued, 0
	return lost, true
}
