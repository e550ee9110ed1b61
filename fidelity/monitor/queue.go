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

// Queue delivers the output of a monitor. It implements Queue of package recorder, without a
// process table: lookups find no process. If the monitor fails, the queue stops, and Failed returns
// the reason.
type Queue struct {
	mon     *Monitor
	decoder Decoder
	split   bufio.SplitFunc
	rest    []byte // an incomplete line

	mu       sync.Mutex
	events   []arrived
	taken    int // number of delivered events
	came     uint64
	seen     map[uint32]engine.Events
	total    uint64
	lost     uint64
	unknown  uint64 // loss reports without a figure
	badLines int    // number of invalid lines
	firstBad string // the first invalid line
	failed   error
	woken    chan struct{}
}

// arrived is an event and the time of its line.
type arrived struct {
	event *engine.Event
	at    uint64
}

// newQueue returns an empty queue.
func newQueue(m *Monitor) *Queue {
	return &Queue{mon: m, decoder: m.Decoder(), split: m.split(), seen: make(map[uint32]engine.Events), woken: make(chan struct{}, 1)}
}

// maxLine is the length limit of a line in bytes.
const maxLine = 16 << 20

// read adds output of the monitor that was read at the given time.
func (q *Queue) read(b []byte, at uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	before := len(q.rest)
	q.rest = append(q.rest, b...)
	rest, out := q.rest, Output{}
	// The earlier bytes contain no line end.
	for q.mon.Record != 0 || bytes.IndexByte(q.rest[before:], '\n') >= 0 {
		n, line, _ := q.split(rest, false)
		if n == 0 {
			break
		}
		rest = rest[n:]
		if err := q.decoder.Decode(line, at, &out); err != nil {
			if q.badLines++; q.badLines == 1 {
				q.firstBad = fmt.Sprintf("%.100q: %v", line, err)
			}
		}
	}
	if len(rest) < len(q.rest) {
		q.rest = append(q.rest[:0], rest...)
	}
	if len(q.rest) > maxLine {
		q.fail(fmt.Errorf("the monitor printed %d bytes without a line end", len(q.rest)))
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

// fail records why the monitor failed. The first reason counts. The caller holds mu.
func (q *Queue) fail(err error) {
	if q.failed == nil {
		q.failed = err
	}
}

// manyLines exceeds the number of lines that a monitor prints before its first event.
const manyLines = 100

// Failed returns an error if the monitor ended early or its output is invalid.
func (q *Queue) Failed() error { return q.failedAfter(manyLines) }

// failedAfter is like Failed, but accepts up to lines invalid lines.
func (q *Queue) failedAfter(lines int) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failed == nil && q.total == 0 && q.badLines >= lines {
		return fmt.Errorf("all %d lines are invalid, the first: %s", q.badLines, q.firstBad)
	}
	return q.failed
}

// saw returns the kinds of events that were read for a pid.
func (q *Queue) saw(pid uint32) engine.Events {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.seen[pid]
}

// Empty reports whether all events have been delivered.
func (q *Queue) Empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.taken == len(q.events)
}

// Backend returns the monitor's name.
func (q *Queue) Backend() string { return q.mon.Name }

// Capabilities returns the monitor's capability table.
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

// Arrived returns the arrival of the last delivered event's line.
func (q *Queue) Arrived() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.came
}

// Block waits until there may be an event, or Wake is called. A negative time means forever.
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

// Stats returns the number of events read, and the losses that the monitor reported.
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

// errSilent is the error if a monitor has not reported a test process.
var errSilent = errors.New("no event of a test process arrived")
