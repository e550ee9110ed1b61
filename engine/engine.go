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

	begin     uint64 // earlier events are applied and not delivered: see Learn
	hold      uint64 // ns
	pollEvery uint64 // ns between two calls of Populate while events are ripe
	populated uint64 // when Populate was last called
	emptied   uint64 // when Populate last read all events of the source
	delivered uint64 // time of the youngest delivered event
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
	e.table.checkPID, e.table.judge, e.table.tags = opts.CheckPID, opts.Judge, opts.Tags
	e.sink = e.buffer
	if opts.Record != nil {
		e.sink = recorded{e.buffer, opts.Record}
		opts.Record.Begin(source, clock)
	}
	return e, nil
}

// Learn adds a process from /proc to the table. Call it between opening the source and the first
// Get. r.Time is when /proc was read. Events before the latest r.Time are applied and not
// delivered, except gaps. So each process with later events is known: it lived while /proc was read
// and was learned, or it was forked after the source was opened and has a FORK. Pid 0 is no
// process: it marks the time when all were read. A zombie has r.Kind KindExit, as its EXIT may
// precede the opening.
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

// Begin applies the source's events from before the processes were learned, so that the table has
// the state just before the first event that Get returns. It waits up to 2 ms for records in
// progress, and up to 100 ms for events that the source holds back.
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

// early reports whether an event happened before the processes were learned. If the process of a
// later EXIT was not learned, the EXIT counts as early: its time can be after the process left
// /proc.
func (e *Engine) early(r *RawEvent) bool {
	if r.Time < e.begin {
		return true
	}
	if e.begin == 0 || r.Time >= e.begin+maxExitDelay || r.Kind != KindExit || r.Thread || !e.table.births || e.table.gapTo != 0 {
		return false
	}
	p, match := e.table.find(r)
	return match != matchSame || p.birth.from == fromEvent
}

// Young reads the source unless an event is ripe. It reports whether the buffer holds only events
// that are too young, so that Get would return ErrNothing. The last delivered event and the
// processes from lookups stay valid. During a drain or a sweep Young returns false.
func (e *Engine) Young() bool {
	now := e.clock.Now()
	if e.drain.at != 0 || e.ripe(now) || e.populate(now) != nil || e.drain.at != 0 {
		return false // Get returns the same error
	}
	return e.buffer.Len() > 0 && !e.ripe(now) && !e.sweeps(now)
}

// Get returns the next event, ErrNothing or an error of the source. It returns the error after all
// held events, and from then on in each call. It never waits. Get skips events without effect (ids
// set to the values they had) and events that Options.Filter or Judge rejects.
//
// A call invalidates the event of the previous call.
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
		// Once in a call, so that the call ends however many events are produced and
		// skipped.
		ripe := e.ripe(now)
		if e.wantsMore(now, ripe) && (e.drain.at != 0 || !read) {
			read = true
			if err := e.populate(now); err != nil {
				return nil, err
			}
			ripe = e.ripe(now)
		}
		// collect runs before any lookup of this call, so that it removes no process that
		// the call returns.
		e.table.collect(now, e.reached())
		if ev := e.reparent(now, ripe); ev != nil {
			return ev, nil
		}
		if ev := e.sweep(now); ev != nil {
			return ev, nil
		}
		if !ripe {
			if at, ok := e.ripeAt(); ok && e.drain.at != 0 && at <= e.clock.Now() {
				continue // the next read of the source decides
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

// wantsMore reports whether to read the source before an event is delivered. ripe is set if an
// event can be delivered.
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
			e.failure, e.holder = err, nil // held-back events will not come
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

// reached returns a time before which no more events will come, unless the buffer is full: then
// they may come out of order.
func (e *Engine) reached() uint64 {
	time := uint64(math.MaxUint64)
	if !e.drain.done && e.emptied == e.populated { // else all have come, or the buffer is full
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

// ripe reports whether the oldest event is old enough: at now, or in a drain at the latest read of
// the source. If the source holds an event back, all later events have to wait.
func (e *Engine) ripe(now uint64) bool {
	at, ok := e.ripeAt()
	if e.drain.at != 0 {
		return ok && e.populated >= at
	}
	return ok && now >= at && (e.holder == nil || e.heldSince(at))
}

// heldSince reports whether the source holds back no event from before a time.
func (e *Engine) heldSince(time uint64) bool {
	held, some := e.holder.Held()
	return !some || held >= time
}

// ripeAt returns when the oldest event will be old enough if no other event comes. In a full buffer
// the oldest event is old enough at once, even if its time is ahead of the clock: other events need
// its place.
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

// Wait returns how long Get will return ErrNothing if no event comes; ok is false for forever.
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

// Buffered returns the number of raw events that wait in the engine, without gaps.
func (e *Engine) Buffered() int { return e.buffer.Len() - e.buffer.gaps }

// HoldTime returns the option of that name, or its default.
func (e *Engine) HoldTime() time.Duration { return e.opts.HoldTime }

// Matrix returns the rules of aggregation.
func (e *Engine) Matrix() *Matrix { return e.opts.Matrix }

// Clock returns the clock that was passed to New.
func (e *Engine) Clock() *Clock { return e.clock }

// deliver makes an event of the oldest raw event and the events that join it. It returns nil if
// there is no event to deliver.
func (e *Engine) deliver(now uint64) *Event {
	first := e.buffer.oldest()
	head, next := e.buffer.open(first), first.next()
	e.buffer.remove(first, head)
	if head.Kind == KindGap {
		return e.deliverGap(head)
	}
	e.countLate(head.Time)
	if e.table.keepsIDs(head) {
		e.buffer.Release(head)
		return nil
	}
	ev := &e.event
	parts := ev.Parts[:0]
	*ev = Event{} // a full literal would be built elsewhere and copied
	ev.Parts, ev.Time, ev.Wall, ev.TID, ev.Thread, ev.CPU = parts, head.Time, e.clock.At(head.Time), head.TID, head.Thread, head.CPU
	p := e.applyPart(head, now)
	joined := head.Kind.Events()
	absorbed := false
	// Events join only if no event is missing between them.
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
		idle := same && e.table.keepsIDs(r)
		if !same || !idle && !e.opts.Matrix.joins(head, r, joined, p) {
			e.buffer.close(h, r)
			break
		}
		next = h.next()
		e.buffer.remove(h, r)
		if !idle {
			p = e.applyPart(r, now)
			// The EXIT of the parent may still be in the buffer.
			p.Cached |= SetOf(FieldPPID, FieldParentSignal) & p.Known &^ r.Task.Known
			if r.IDChange != ChangedPGID { // a shell sets the group of each command
				joined |= r.Kind.Events()
			}
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

// countLate counts an event that is delivered, or skipped, after a younger event.
func (e *Engine) countLate(time uint64) {
	if time < e.delivered {
		e.late++
	}
	e.delivered = max(e.delivered, time)
}

// deliverGap returns the event of a gap.
func (e *Engine) deliverGap(r *RawEvent) *Event {
	e.table.gap(r.Gap)
	e.countLate(r.Time)
	e.event = Event{
		Parts: e.event.Parts[:0], Events: EventGap, Time: r.Time, Wall: e.clock.At(r.Time), CPU: AllCPUs, Gap: *r.Gap, Process: new(Process),
	}
	e.buffer.Release(r)
	return &e.event
}

// applyPart applies a raw event, adds it to the parts of the current event, and returns its
// process.
func (e *Engine) applyPart(r *RawEvent, now uint64) *process {
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
	switch r.Kind {
	case KindPtrace:
		ev.Tracer = r.Tracer
	case KindCgroupChange:
		ev.CgroupChangeBy = e.table.identityAt(r.Creator, r.Time)
	case KindNSChange:
		ev.NSChange = r.NSChange
	}
	return p
}

// Lookup returns the youngest known process that has or had the pid, or nil. It finds a process
// until the grace time after its end is over. The result is valid until the next call of Get.
func (e *Engine) Lookup(pid uint32) *Process { return e.table.show(e.table.lookup(pid)) }

// LookupIdentity returns the process of that identity, also if its pid has been reused; nil if it
// is not known.
func (e *Engine) LookupIdentity(id Identity) *Process {
	return e.table.show(e.table.lookupIdentity(id))
}

// Processes yields the process table in order of pid, and of birth where a pid was reused. Get must
// not be called during the iteration.
func (e *Engine) Processes() iter.Seq[*Process] { return e.table.all() }
