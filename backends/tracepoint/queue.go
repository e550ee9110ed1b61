package tracepoint

import (
	"cmp"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/stock"
)

// entry is a record in the queue, with the event that it may become.
type entry struct {
	record
	name   [sizeText]byte // storage of record.text, but for paths
	ev     *engine.RawEvent
	got    engine.Fields // were read from /proc
	read   uint64        // when that was done
	unread bool          // /proc is to be read
	memory uint64        // address space that was read in, 0 for unknown
	next   *entry        // executed: the next exec of the process that is in the queue
	gap    engine.Gap    // lost: what the sink is told, if anything
}

// queue has the records in the order of time, of all CPUs. It is a slice of which the part from
// head on is used; entries that left it are used again, unless nobody needs them, see trim.
type queue struct {
	entries []*entry
	head    int
	free    stock.Of[entry]
}

func (q *queue) len() int { return len(q.entries) - q.head }

// oldest returns the first entry, nil if there is none.
func (q *queue) oldest() *entry {
	if q.len() == 0 {
		return nil
	}
	return q.entries[q.head]
}

// add puts a record where it belongs: behind those of the same time. Almost always that is the end.
func (q *queue) add(r *record) *entry {
	e := q.free.Take()
	*e = entry{record: *r}
	e.text = e.name[:copy(e.name[:], r.text)]
	if q.head > 64 && 2*q.head > len(q.entries) {
		q.entries = q.entries[:copy(q.entries, q.entries[q.head:])]
		q.head = 0
	}
	q.entries = append(q.entries, e)
	for i := len(q.entries) - 1; i > q.head && cmp.Less(e.time, q.entries[i-1].time); i-- {
		q.entries[i], q.entries[i-1] = q.entries[i-1], q.entries[i]
	}
	return e
}

// take removes the first entry, which is to be released.
func (q *queue) take() *entry {
	e := q.entries[q.head]
	q.entries[q.head] = nil
	q.head++
	return e
}

// release gives back an entry that was taken, without what it refers to.
func (q *queue) release(e *entry) {
	e.ev, e.next = nil, nil
	q.free.Put(e)
}

// trim lets go the memory that was not needed since the last trim.
func (q *queue) trim() {
	q.free.Trim()
	q.entries = append(q.entries[:0], q.entries[q.head:]...)
	clear(q.entries[len(q.entries):cap(q.entries)]) // what they refer to was let go
	q.entries, q.head = stock.Fit(q.entries), 0
}
