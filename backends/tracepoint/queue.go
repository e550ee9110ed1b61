package tracepoint

import (
	"cmp"

	"github.com/quark-linux/quark/engine"
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
// head on is used; entries that left it are used again.
type queue struct {
	entries []*entry
	head    int
	free    []*entry
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
	var e *entry
	if n := len(q.free); n > 0 {
		e, q.free = q.free[n-1], q.free[:n-1]
		*e = entry{}
	} else {
		e = new(entry)
	}
	e.record = *r
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

// take removes the first entry. It is valid until the next add.
func (q *queue) take() *entry {
	e := q.entries[q.head]
	q.entries[q.head] = nil
	q.head++
	q.free = append(q.free, e)
	return e
}
