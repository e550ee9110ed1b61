package engine

import "time"

// drain is the state of an orderly end, which Drain begins or the source, with an error or io.EOF.
type drain struct {
	at     uint64 // when it began; 0 before
	until  uint64 // later births may be missed: later events are not delivered; 0 for no limit
	done   bool   // the source has no older events left
	settle uint64 // how old an event has to be when the source is read; see settle
}

// settle is the time after an event from which a source can report all that happened before it: a
// CPU takes the time, then writes the record, and a virtual CPU can be stopped in between. Events
// that come still later are counted as late.
const settle = uint64(100 * time.Millisecond)

// drainPause is the time to wait for a record that the kernel has begun to write.
const drainPause = time.Millisecond

// disorder is more than any source brings an event after one that happened later. A HoldTime can
// be long for other reasons: an orderly end on a busy machine does not take as long.
const disorder = uint64(time.Second)

// Finisher is a [Source] that holds events back, until it has seen the next ones. Finish is called
// once: from then on Populate holds back no events.
type Finisher interface{ Finish() }

// Detacher is a [Source] that can stop making events, while earlier ones can still be read. Detach
// is called once, at the beginning of an orderly end. When all is read, Produced equals inserted
// plus lost events.
type Detacher interface{ Detach() }

// Drain ends the holding of events, for an orderly end. From then on Get returns the events that
// the source has queued, also those that did not fit into the buffer yet. It returns each as soon
// as its order is sure, 100 ms after it happened, and then ErrNothing. [Engine.Drained] reports
// when that is for good.
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

// Drained reports whether all is delivered, after Drain or the end of the source.
func (e *Engine) Drained() bool { return e.drain.done && e.buffer.Len() == 0 }

// drained reports, after Populate, whether the source has no events left from before the call of
// Drain. It has none if it left room in the buffer, will signal more, and had the time to finish
// records in progress; or if all it brings is younger than any disorder of its events could
// explain.
func (e *Engine) drained() bool {
	if e.buffer.Room() > 0 && e.source.Arm(true) && e.populated >= e.drain.at+e.drain.settle {
		return true
	}
	head := e.buffer.oldest()
	return head != nil && head.Time > e.drain.at+min(e.hold, disorder)
}
