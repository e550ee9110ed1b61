package spool

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/quark-linux/quark/export"
)

// The causes of loss that the spool itself has.
const (
	QueueFull   = "queue_full"  // there was no room
	Ended       = "ended"       // left at the end, and certain not to be delivered
	Unconfirmed = "unconfirmed" // left at the end: it was sent, and no answer came
)

// Options say how much waits, and how it is delivered. Zero is the default for each.
type Options struct {
	Length int // items that wait, those that are being delivered included: 16384
	Bytes  int // their size: 16 MiB

	Batch      int           // items that are delivered at once: 512
	BatchBytes int           // their size: 1 MiB; one that is larger goes alone
	Delay      time.Duration // how long a batch waits to become full: 200 ms

	// RetryMin is the pause after the first failure: 500 ms. It doubles with each up to
	// RetryMax: 30 s.
	RetryMin, RetryMax time.Duration

	// Grace is for what waits at the end: 5 s.
	Grace time.Duration

	// Report is called when deliveries begin to fail, with why, and with nil when they work
	// again; also with what was refused. Each is at most once in ReportEvery: 10 s. It may be
	// nil.
	Report      func(error)
	ReportEvery time.Duration
}

// DefaultRetryMax is the RetryMax of 0.
const DefaultRetryMax = 30 * time.Second

func (o Options) defaults() Options {
	o.Length = cmp.Or(o.Length, 16384)
	o.Bytes = cmp.Or(o.Bytes, 16<<20)
	o.Batch = cmp.Or(o.Batch, 512)
	o.BatchBytes = cmp.Or(o.BatchBytes, 1<<20)
	o.Delay = cmp.Or(o.Delay, 200*time.Millisecond)
	o.RetryMin = cmp.Or(o.RetryMin, 500*time.Millisecond)
	o.RetryMax = max(cmp.Or(o.RetryMax, DefaultRetryMax), o.RetryMin)
	o.Grace = cmp.Or(o.Grace, 5*time.Second)
	o.ReportEvery = cmp.Or(o.ReportEvery, 10*time.Second)
	if o.Report == nil {
		o.Report = func(error) {}
	}
	return o
}

// Outcome is how the delivery of a batch went. The zero value: all of it is delivered.
type Outcome struct {
	// Retry asks for another try with the batch, after a pause of at least After.
	Retry bool
	After time.Duration
	// Done, with Retry, is how many from the beginning are delivered all the same.
	Done int
	// Sent is set with Retry if the target may have the batch all the same.
	Sent bool

	// Skip, without Retry, is how many at the end are left for the next batch: nothing was done
	// with them.
	Skip int
	// Dropped are how many of the batch are given up, and Cause why.
	Dropped int
	Cause   string

	Err error // what to report
}

// Target delivers batches and makes items.
type Target[T any] struct {
	// Deliver delivers a batch before it returns. It ends with ctx.
	Deliver func(ctx context.Context, batch []T) Outcome
	// Causes are those of its outcomes.
	Causes []string
	// Gap, if not nil, makes the item that says that some were dropped for lack of room. Put
	// calls it, and Close.
	Gap func(count uint64, from, to time.Time) (item T, size int)
}

// Spool is what waits for a target. Put is for one goroutine; Counts and Close for any.
type Spool[T any] struct {
	o      Options
	target Target[T]
	end    context.CancelFunc // of the deliveries
	done   chan struct{}
	wake   chan struct{} // something to do: see signal
	// closing is closed by Close.
	closing chan struct{}

	mu      sync.Mutex
	waiting []entry[T] // the first of them are being delivered
	bytes   int        // of them
	own     int        // gaps among them
	closed  bool
	counts  export.Counts
	missing uint64 // dropped since the last gap
	from    time.Time
}

type entry[T any] struct {
	item T
	size int
	own  bool // a gap
}

// New starts a goroutine that delivers, until Close.
func New[T any](o Options, target Target[T]) *Spool[T] {
	ctx, end := context.WithCancel(context.Background())
	s := &Spool[T]{o: o.defaults(), target: target, end: end, done: make(chan struct{}), wake: make(chan struct{}, 1), closing: make(chan struct{})}
	s.counts.Dropped = make(map[string]uint64)
	for _, c := range append([]string{QueueFull, Ended, Unconfirmed}, target.Causes...) {
		s.counts.Dropped[c] = 0
	}
	go s.run(ctx)
	return s
}

// Put takes an item of a size, or counts it as dropped. It never waits for a delivery.
func (s *Spool[T]) Put(item T, size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.Taken++
	if s.closed || !s.room(size) {
		s.refuse()
		return
	}
	s.tellMissing()
	s.add(entry[T]{item, size, false})
}

// tellMissing adds the item that says how many are missing, if some are.
func (s *Spool[T]) tellMissing() {
	if s.missing > 0 && s.target.Gap != nil {
		gap, size := s.target.Gap(s.missing, s.from, time.Now())
		s.add(entry[T]{gap, size, true})
	}
	s.missing = 0
}

// Full reports whether there is no room for any item, and counts one as dropped then, in place of a
// Put: for items that are dear to make.
func (s *Spool[T]) Full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed && s.room(1) {
		return false
	}
	s.counts.Taken++
	s.refuse()
	return true
}

// refuse counts an item that has no room.
func (s *Spool[T]) refuse() {
	if s.closed {
		s.counts.Dropped[Ended]++
		return
	}
	if s.counts.Dropped[QueueFull]++; s.missing == 0 {
		s.from = time.Now()
	}
	s.missing++
}

// room reports whether an item has room. After some had none it takes a quarter of the room to take
// one again: there would be a gap for every other item.
func (s *Spool[T]) room(size int) bool {
	length, bytes := s.o.Length, s.o.Bytes
	if s.missing > 0 {
		length, bytes = length-length/4, bytes-bytes/4
	}
	return len(s.waiting) < length && (s.bytes+size <= bytes || len(s.waiting) == 0)
}

func (s *Spool[T]) add(e entry[T]) {
	s.waiting = append(s.waiting, e)
	s.bytes += e.size
	if e.own {
		s.own++
	}
	if n := len(s.waiting); n == 1 || n == s.o.Batch || s.bytes >= s.o.BatchBytes && s.bytes-e.size < s.o.BatchBytes {
		s.signal()
	}
}

func (s *Spool[T]) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Counts returns what became of the items so far.
func (s *Spool[T]) Counts() export.Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counts
	c.Queued = uint64(len(s.waiting) - s.own)
	c.Dropped = make(map[string]uint64, len(s.counts.Dropped))
	for cause, n := range s.counts.Dropped {
		c.Dropped[cause] = n
	}
	return c
}

// errStuck is the error of Close if a delivery does not end.
var errStuck = errors.New("a delivery does not end: what waits is counted as queued")

// Close delivers what waits, for as long as the grace lasts, and drops the rest. A pause after a
// failure ends now, unless the target has asked for it.
func (s *Spool[T]) Close() error {
	s.mu.Lock()
	if !s.closed {
		s.tellMissing()
		close(s.closing)
	}
	s.closed = true
	s.mu.Unlock()
	s.signal()
	defer time.AfterFunc(s.o.Grace, s.end).Stop()
	select {
	case <-s.done:
		s.end()
		return nil
	case <-time.After(s.o.Grace + time.Second):
		return errStuck
	}
}
