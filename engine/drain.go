package engine

import "time"

// drain is the state of an orderly end. Drain begins it, or the source by an error or io.EOF.
type drain struct {
	at     uint64 // when it began; 0 before
	until  uint64 // later events are not delivered, as births may be missing; 0 for no limit
	done   bool   // the source has no older events left
	settle uint64 // minimum age of an event at the read of the source; see settle
}

// settle is how long after an event the source can still bring earlier events: a CPU reads the
// clock before it writes the record, and a virtual CPU can be stopped between the two. Events that
// come even later are counted as late.
const settle = uint64(100 * time.Millisecond)

// drainPause is the time to wait for a record that the kernel has begun to write.
const drainPause = time.Millisecond

// disorder bounds the delay between a newer event and an older event that a source brings after it.
// HoldTime can be longer, for other reasons, so an orderly end need not wait for HoldTime.
const disorder = uint64(time.Second)

// Finisher is a [Source] that holds events back until it has read the next events. Finish is called
// once: from then on Populate holds back no events.
type Finisher interface{ Finish() }

// Detacher is a [Source] that can stop making events while earlier events can still be read. Detach
// is called once, at the beginning of an orderly end. When all events are read, Produced equals
// inserted plus lost events.
type Detacher interface{ Detach() }

// Drain begins an orderly end. From then on Get returns all events that the source has queued,
// including events without room in the buffer. It returns each event when its order is certain, 100
// ms after it happened. [Engine.Drained] reports when no more events will come.
func (e *Engine) Drain() error {
	if e.drain.at != 0 {
		return nil
	}
	if d, ok := e.source.(Detacher); ok {
		e.drain.until = e.clock.Now()
		d.Detach()
	}
	if f, ok := e.source.(Finisher); ok {
		f.Finish()
	}
	e.drain.at = max(e.clock.Now(), 1)
	return e.populate(e.drain.at)
}

// Drained reports whether all events are delivered, after Drain or the end of the source.
func (e *Engine) Drained() bool {
	return e.drain.done && e.buffer.Len() == 0 && !e.table.orphans.some()
}

// drained reports, after Populate, whether the source has returned all events from before the call
// of Drain. The source has no such events if it left room in the buffer, will signal the next
// event, and had the time to finish records in progress. It has none either if all held events are
// later than Drain by more than their possible disorder.
func (e *Engine) drained() bool {
	if e.buffer.Room() > 0 && e.source.Arm(true) && e.populated >= e.drain.at+e.drain.settle {
		return true
	}
	head := e.buffer.oldest()
	return head != nil && head.Time > e.drain.at+min(e.hold, disorder)
}
