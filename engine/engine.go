package engine

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"time"

	"github.com/quark-linux/quark/internal/freelist"
)

// ErrNothing means that no event is old enough yet: wait, then call Get again.
var ErrNothing = errors.New("no event yet")

// Engine orders, joins and enriches the events of one source. It is not safe
// for concurrent use.
type Engine struct {
	opts   Options
	clock  *Clock
	source Source
	holder Holder // the source, if it holds events back
	buffer *Buffer
	sink   Sink // the buffer, and the recorder if there is one
	table  table
	event  Event

	begin     uint64 // what happened before is applied, and not delivered: see Learn
	hold      uint64 // ns
	pollEvery uint64 // ns between two calls of Populate while events are ripe
	populated uint64 // when Populate was last called
	emptied   uint64 // when it was last read completely
	delivered uint64 // time of the youngest event handed out
	trimmer   freelist.Timer
	drain     drain
	failure   error // of the source; it ended the source
	sweeping  sweep

	aggregations    uint64
	nonAggregations uint64
	late            uint64
	filtered        uint64
	unsure          uint64
}

// New returns an engine that reads from source. The caller closes the source.
func New(source Source, clock *Clock, opts Options) (*Engine, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	e := &Engine{opts: opts, clock: clock, source: source, buffer: NewBuffer(opts.MaxLength)}
	e.holder, _ = source.(Holder)
	e.hold = uint64(opts.HoldTime)
	e.pollEvery = min(e.hold/10, uint64(10*time.Millisecond))
	if _, alone := source.(Timekeeper); !alone { // its clock pauses during a read
		e.drain.settle = min(e.hold, settle)
	}
	e.table.grace, e.table.clock = uint64(opts.CacheGraceTime), clock
	table := source.Capabilities()
	table.addDerived()
	e.table.unseen, e.table.births, e.table.ends = table.ChangedUnseen(), table.all(KindFork), table.all(KindExit)
	e.table.cgroups = table.Fields[FieldCgroup].Origin != OriginNone
	e.table.look, e.table.judge, e.table.tags = opts.Look, opts.Judge, opts.Tags
	e.sink = e.buffer
	if opts.Record != nil {
		e.sink = recorded{e.buffer, opts.Record}
		opts.Record.Begin(source, clock)
	}
	return e, nil
}

// Learn adds a process that /proc shows to the table. Call it between opening the source and the
// first Get. r.Time is when /proc was read. Events from before the latest of these times are
// applied and not delivered, except gaps. A process that has events after it either lived while all
// processes were read, and was learned, or was born since the source was opened, with a FORK. Pid 0
// is no process, and only marks when all were read. A zombie has r.Kind KindExit: its EXIT may have
// been before the source was opened.
func (e *Engine) Learn(r *RawEvent) {
	e.begin = max(e.begin, r.Time)
	if e.opts.Record != nil {
		e.opts.Record.Record(r)
	}
	if r.PID == 0 {
		return
	}
	zombie := r.Kind == KindExit
	r.Kind = kindSeen
	if p := e.table.learn(r, r.Time); zombie {
		e.table.miss(p, r.Time)
	}
}

// Begin applies the source's events from before the processes were learned, so that the table is as
// of the first event that Get returns. It waits until records are written, for 2 ms, and for events
// that the source holds back, for 100 ms.
func (e *Engine) Begin() error {
	e.table.settleEntries()
	for tries := 0; ; tries++ {
		now, more := e.clock.Now(), true
		for more {
			if err := e.populate(now); err != nil {
				return err
			}
			more = false
			for h := e.buffer.oldest(); h != nil && h.Time < e.begin && h.Kind != KindGap; h = e.buffer.oldest() {
				e.deliver(now)
				e.table.hide()
				more = e.emptied != e.populated // as the buffer was full
			}
		}
		if tries >= 2 && (e.holder == nil || e.heldSince(e.begin)) || tries == 100 {
			return nil
		}
		time.Sleep(drainPause)
	}
}

// early reports whether an event happened before the processes were learned. An EXIT can be stamped
// when the process has already left /proc, and then belongs to a process that was not learned.
func (e *Engine) early(r *RawEvent) bool {
	if r.Time < e.begin {
		return true
	}
	if e.begin == 0 || r.Time >= e.begin+lastWord || r.Kind != KindExit || r.Thread || !e.table.births || e.table.gapTo != 0 {
		return false
	}
	p, match := e.table.find(r)
	return match != matchSame || p.birth.from == fromEvent
}

// Young reads the source unless an event is ripe, and reports whether events are held and all are
// too young: Get would return ErrNothing. Handed-out events and processes that can be looked up
// stay unchanged. In a drain, and while there are processes to look for, it reports false.
func (e *Engine) Young() bool {
	now := e.clock.Now()
	if e.drain.at != 0 || e.ripe(now) || e.populate(now) != nil || e.drain.at != 0 {
		return false // of an error Get says the same
	}
	return e.buffer.Len() > 0 && !e.ripe(now) && !e.sweeps(now)
}

// Get returns the next event, ErrNothing or an error of the source. It returns the error after all
// held events, and from then on in each call. It never waits. Get skips events without effect (ids
// set to the values they had) and those that Options.Filter or Judge rejects.
//
// What the previous call returned is not valid any more.
func (e *Engine) Get() (*Event, error) {
	now, read := e.clock.Now(), false
	e.table.settleEntries()
	e.table.dropUsage()
	if e.trimmer.Due(now) {
		e.buffer.trim()
		e.table.trim()
	}
	for {
		e.table.hide()
		// Once in a call, so that it ends however much is produced and passed over.
		ripe := e.ripe(now)
		if e.wantsMore(now, ripe) && (e.drain.at != 0 || !read) {
			read = true
			if err := e.populate(now); err != nil {
				return nil, err
			}
			ripe = e.ripe(now)
		}
		// It runs before any lookup, so that the processes returned below can't be
		// collected in this call.
		e.table.collect(now, e.reached())
		if ev := e.sweep(now); ev != nil {
			return ev, nil
		}
		if !ripe {
			if at, ok := e.ripeAt(); ok && e.drain.at != 0 && at <= e.clock.Now() {
				continue // the next reading settles it
			}
			if e.failure != nil {
				return nil, e.failure
			}
			return nil, ErrNothing
		}
		if ev := e.deliver(now); ev != nil {
			return ev, nil
		}
	}
}

// wantsMore reports whether the source is to be read before an event is delivered. ripe
// is whether there is one to deliver.
func (e *Engine) wantsMore(now uint64, ripe bool) bool {
	if e.drain.at != 0 {
		return !e.drain.done && (!ripe || 2*e.buffer.Len() <= e.opts.MaxLength)
	}
	return now-e.populated >= e.pollEvery || !ripe
}

func (e *Engine) populate(now uint64) error {
	if e.drain.at != 0 {
		now = e.clock.Now() // in a drain Get reads more than once
	}
	e.populated = now
	if e.opts.FollowClock != nil {
		e.opts.FollowClock()
	}
	if e.opts.Record != nil {
		e.opts.Record.Read(now)
	}
	if err := e.source.Populate(e.sink); err != nil {
		if !errors.Is(err, io.EOF) {
			err = fmt.Errorf("read from %s: %w", e.source.Name(), err)
			if errors.Is(err, os.ErrClosed) {
				return err
			}
			e.failure, e.holder = err, nil // what the source holds back does not come
		}
		e.drain.at, e.drain.done = max(now, 1), true
		return nil
	}
	if e.buffer.Room() > 0 {
		e.emptied = now
	}
	if e.drain.at != 0 {
		e.drain.done = e.drained()
	}
	return nil
}

// reached is the time that the events have reached: none of before it will come, unless the buffer
// is full, which gives up the order.
func (e *Engine) reached() uint64 {
	time := uint64(math.MaxUint64)
	if !e.drain.done && e.emptied == e.populated { // else all has come, or the buffer is full
		time = e.emptied
		if e.holder != nil {
			if held, some := e.holder.Held(); some {
				time = min(time, held)
			}
		}
	}
	if head := e.buffer.oldest(); head != nil {
		time = min(time, head.Time)
	}
	return time
}

// ripe reports whether the oldest event is old enough, in a drain at the latest reading of the
// source. While the source holds an event back, the engine is no further in time than that event.
func (e *Engine) ripe(now uint64) bool {
	at, ok := e.ripeAt()
	if e.drain.at != 0 {
		return ok && e.populated >= at
	}
	return ok && now >= at && (e.holder == nil || e.heldSince(at))
}

// heldSince reports whether the source holds no event of before a time back.
func (e *Engine) heldSince(time uint64) bool {
	held, some := e.holder.Held()
	return !some || held >= time
}

// ripeAt is when the oldest event will be old enough if none comes meanwhile. In a full buffer it
// is at once, even if its time is ahead of the clock: no other could come before it leaves.
func (e *Engine) ripeAt() (at uint64, ok bool) {
	head := e.buffer.oldest()
	if head == nil {
		return 0, false
	}
	switch {
	case e.drain.done || e.buffer.Room() <= 0:
		return 0, true
	case e.drain.at != 0:
		return head.Time + e.drain.settle, true
	}
	return head.Time + targetAge(e.hold, e.opts.MaxLength, e.buffer.Len()), true
}

// Wait returns how long Get will return ErrNothing if the source stays silent; ok is false if that
// is forever.
func (e *Engine) Wait() (d time.Duration, ok bool) {
	at, ok := e.ripeAt()
	if e.drain.at != 0 && !e.drain.done && (!ok || e.populated < at) {
		return drainPause, true
	}
	now := e.clock.Now()
	wait := at - min(at, now)
	if w, sweeps := e.sweepWait(now); sweeps && (!ok || w < wait) {
		return time.Duration(w), true
	}
	return time.Duration(wait), ok
}

// Buffered is the number of raw events that wait in the engine, gaps left out.
func (e *Engine) Buffered() int { return e.buffer.Len() - e.buffer.gaps }

// HoldTime is the option of that name, its default filled in.
func (e *Engine) HoldTime() time.Duration { return e.opts.HoldTime }

// Matrix returns the rule of aggregation.
func (e *Engine) Matrix() *Matrix { return e.opts.Matrix }

// Clock is the clock that the engine was made with.
func (e *Engine) Clock() *Clock { return e.clock }

// deliver makes an event of the oldest raw event and those that join it. It returns nil if there is
// no event to deliver.
func (e *Engine) deliver(now uint64) *Event {
	first := e.buffer.oldest()
	head, next := e.buffer.open(first), first.next()
	e.buffer.remove(first, head)
	if head.Kind == KindGap {
		return e.deliverGap(head)
	}
	e.countLate(head.Time)
	if e.table.idle(head) {
		e.buffer.Release(head)
		return nil
	}
	ev := &e.event
	parts := ev.Parts[:0]
	*ev = Event{} // a literal with all would be built elsewhere and copied
	ev.Parts, ev.Time, ev.Wall, ev.TID, ev.Thread, ev.CPU = parts, head.Time, e.clock.At(head.Time), head.TID, head.Thread, head.CPU
	p := e.take(head, now)
	joined := head.Kind.Events()
	absorbed := false
	// Events join only where none is missing between them.
	gap := e.buffer.firstGap()
	if head.Time <= e.table.gapTo {
		gap = 0
	}
	early := e.early(head)
	if early && head.Time < e.begin {
		gap = min(gap, e.begin)
	} else if e.drain.until != 0 {
		gap, early = min(gap, e.drain.until), early || head.Time >= e.drain.until
	}
	for next != nil && next.Time < gap {
		h, r := next, e.buffer.open(next)
		same := e.table.sameLife(head, r, joined)
		idle := same && e.table.idle(r)
		if !same || !idle && !e.opts.Matrix.joins(head, r, joined, p) {
			e.buffer.close(h, r)
			break
		}
		next = h.next()
		e.buffer.remove(h, r)
		if !idle {
			p = e.take(r, now)
			joined |= r.Kind.Events()
			absorbed = true
		}
		e.buffer.Release(r)
	}
	e.buffer.Release(head)
	ev.Process = e.table.show(p)
	if early {
		e.judge(ev, p)
	}
	if early || !e.passes(ev, p) {
		e.table.dropUsage()
		return nil
	}
	if absorbed {
		e.aggregations++
	} else {
		e.nonAggregations++
	}
	return ev
}

// countLate counts an event that is handed out, or skipped, after a younger one.
func (e *Engine) countLate(time uint64) {
	if time < e.delivered {
		e.late++
	}
	e.delivered = max(e.delivered, time)
}

// deliverGap makes an event of a gap.
func (e *Engine) deliverGap(r *RawEvent) *Event {
	e.table.gap(r.Gap)
	e.countLate(r.Time)
	e.event = Event{
		Parts: e.event.Parts[:0], Events: EventGap, Time: r.Time, Wall: e.clock.At(r.Time), CPU: AllCPUs, Gap: *r.Gap, Process: new(Process),
	}
	e.buffer.Release(r)
	return &e.event
}

// take applies one raw event, adds its changes to the event, and returns its process.
func (e *Engine) take(r *RawEvent, now uint64) *process {
	ev := &e.event
	if r.Kind == KindExecFailed {
		ev.Failed = e.table.failed(r)
	}
	p := e.table.apply(r, now)
	n := len(ev.Parts)
	ev.Parts = append(ev.Parts, Part{})
	part := &ev.Parts[n] // a literal would be built elsewhere and copied
	part.Kind, part.IDChange, part.Time, part.CPU = r.Kind, r.IDChange, r.Time, r.CPU
	part.Cred, part.Known, part.Cached = p.Cred, p.Known&FieldsIDs, p.Cached&FieldsIDs
	ev.Events |= r.Kind.Events()
	ev.IDChange |= r.IDChange
	if r.Kind == KindPtrace {
		ev.Tracer = r.Tracer
	}
	return p
}

// Lookup returns the youngest process that has or had the pid, nil if none is
// known. It stays findable for the grace time after its end. The result is
// valid until the next call of Get.
func (e *Engine) Lookup(pid uint32) *Process { return e.table.show(e.table.lookup(pid)) }

// LookupIdentity returns the process of that identity, also when its pid has
// been used again; nil if it is not known.
func (e *Engine) LookupIdentity(id Identity) *Process {
	return e.table.show(e.table.lookupIdentity(id))
}

// Processes yields the process table in order of pid, and of birth where a pid
// was used again. Get must not be called meanwhile.
func (e *Engine) Processes() iter.Seq[*Process] { return e.table.all() }
