package monitor

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quark-linux/quark/engine"
)

// Queue delivers what a monitor prints. It implements the interface of that name of package
// witness, without a process table: nothing is found by a lookup. A monitor that fails delivers
// nothing more, and Failed says why.
type Queue struct {
	mon     *Monitor
	decoder Decoder
	split   bufio.SplitFunc
	rest    []byte // of an incomplete line

	mu       sync.Mutex
	events   []arrived
	taken    int // how many of events were delivered
	came     uint64
	seen     map[uint32]engine.Events
	total    uint64
	lost     uint64
	unknown  uint64 // times that a loss without a number was reported
	rubbish  int    // lines that make no sense
	nonsense string // what the first of them is
	failed   error
	woken    chan struct{}
}

// arrived is an event, whose line was read at a time.
type arrived struct {
	event *engine.Event
	at    uint64
}

// newQueue returns a queue that nothing was read for.
func newQueue(m *Monitor) *Queue {
	return &Queue{mon: m, decoder: m.Decoder(), split: m.split(), seen: make(map[uint32]engine.Events), woken: make(chan struct{}, 1)}
}

// maxLine is the longest line in bytes that is waited for.
const maxLine = 16 << 20

// read takes what the monitor has printed, and which was read at a time.
func (q *Queue) read(b []byte, at uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	before := len(q.rest)
	q.rest = append(q.rest, b...)
	rest, out := q.rest, Output{}
	// What was there has no end of a line in it.
	for q.mon.Record != 0 || bytes.IndexByte(q.rest[before:], '\n') >= 0 {
		n, line, _ := q.split(rest, false)
		if n == 0 {
			break
		}
		rest = rest[n:]
		if err := q.decoder.Decode(line, at, &out); err != nil {
			if q.rubbish++; q.rubbish == 1 {
				q.nonsense = fmt.Sprintf("%.100q: %v", line, err)
			}
		}
	}
	if len(rest) < len(q.rest) {
		q.rest = append(q.rest[:0], rest...)
	}
	if len(q.rest) > maxLine {
		q.fail(fmt.Errorf("it printed %d bytes without the end of a line", len(q.rest)))
		q.rest = nil
	}
	q.lost += out.Lost
	q.unknown += out.Uncounted
	for _, ev := range out.Events {
		q.total++
		if !ev.Thread {
			q.seen[ev.Process.PID] |= ev.Events
		}
		q.events = append(q.events, arrived{ev, at})
	}
	if len(out.Events) > 0 {
		q.Wake()
	}
}

// fail notes why the monitor cannot go on. The first reason counts. mu is held.
func (q *Queue) fail(err error) {
	if q.failed == nil {
		q.failed = err
	}
}

// manyLines are more than a monitor has to say before its first event.
const manyLines = 100

// Failed returns why the monitor has ended before it was told to, or makes no sense.
func (q *Queue) Failed() error { return q.failedAfter(manyLines) }

// failedAfter is Failed with the number of lines of which one has to make sense.
func (q *Queue) failedAfter(lines int) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failed == nil && q.total == 0 && q.rubbish >= lines {
		return fmt.Errorf("of %d lines none makes sense, the first: %s", q.rubbish, q.nonsense)
	}
	return q.failed
}

// saw returns the kinds of events of a pid that were read.
func (q *Queue) saw(pid uint32) engine.Events {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.seen[pid]
}

// Empty reports whether all that was read has been delivered.
func (q *Queue) Empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.taken == len(q.events)
}

// Backend returns the monitor's name.
func (q *Queue) Backend() string { return q.mon.Name }

// Capabilities returns what the monitor's output can say.
func (q *Queue) Capabilities() *engine.CapabilityTable { return &q.mon.Table }

// Get returns the next event.
func (q *Queue) Get() (*engine.Event, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.taken == len(q.events) {
		q.events, q.taken = nil, 0
		return nil, engine.ErrNothing
	}
	ev := q.events[q.taken]
	q.taken++
	q.came = ev.at
	return ev.event, nil
}

// Arrived returns when the line of the last delivered event was read.
func (q *Queue) Arrived() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.came
}

// Block waits until there may be an event, or Wake was called. A negative time is for ever.
func (q *Queue) Block(d time.Duration) error {
	if d < 0 {
		<-q.woken
		return nil
	}
	select {
	case <-q.woken:
	case <-time.After(d):
	}
	return nil
}

// Wake ends Block.
func (q *Queue) Wake() {
	select {
	case q.woken <- struct{}{}:
	default:
	}
}

// Lookup finds nothing.
func (q *Queue) Lookup(uint32) *engine.Process { return nil }

// LookupIdentity finds nothing.
func (q *Queue) LookupIdentity(engine.Identity) *engine.Process { return nil }

// Stats returns how many events were read, and how many the monitor says that it has lost.
func (q *Queue) Stats() (s engine.Stats, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s.Insertions = q.total
	s.Source.Produced, s.Source.Bound = q.total+q.lost, q.unknown > 0
	s.Source.Lost[engine.LossRingFull] = q.lost
	return s, nil
}

// Close does nothing: Run.Stop ends the monitor.
func (q *Queue) Close() error { return nil }

// errSilent is the error of a monitor of which nothing has come.
var errSilent = errors.New("nothing of a process that was started for that has come")
