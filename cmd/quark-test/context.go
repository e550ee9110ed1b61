package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/testrun"
)

// test is a running test: its queue and what that has delivered.
type test struct {
	*testrun.T
	q      *quark.Queue
	hold   time.Duration  // its HoldTime
	events []*quark.Event // clones of all that were delivered, in order
	gets   uint64         // events delivered or filtered
}

// shortHold is a HoldTime that keeps tests short and is still long enough for events
// of different CPUs to come into order on a busy machine.
const shortHold = 50 * time.Millisecond

// open opens a queue of the test's backend, which is closed with the test. A
// HoldTime of 0 is shortHold here.
func (t *test) open(opts quark.Options) *quark.Queue {
	q, err := t.tryOpen(opts)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return q
}

// tryOpen is open where that may fail.
func (t *test) tryOpen(opts quark.Options) (*quark.Queue, error) {
	set, err := backends.Parse(t.Backend)
	if err != nil {
		t.Fatalf("%v", err)
	}
	opts.Backends, opts.Strict = set, true
	if opts.HoldTime == 0 {
		opts.HoldTime = shortHold
	}
	t.Waiting("the queue to open")
	begin := time.Now()
	q, err := quark.Open(opts)
	if err != nil {
		return nil, err
	}
	if t.Verbose >= 2 {
		t.Logf("opened in %v", time.Since(begin))
	}
	if types := q.Capabilities().Types; types != "" {
		t.Logf("%s has the kernel's types from %s", t.Backend, types)
	}
	t.close()
	t.q, t.hold, t.events, t.gets = q, opts.HoldTime, nil, 0
	t.Cleanup(func() { t.closeQueue(q) })
	return q, nil
}

// The queues that tests have in common, by what they ask for in tests.go.
const (
	listening = "listening" // for tests that need a queue as anyone would open it
	joining   = "joining"   // for those of what is joined to one event
	singly    = "singly"    // for those that want events one by one, or forgotten soon
)

// shortGrace is how long the queue shared by the name singly knows who has ended.
const shortGrace = 300 * time.Millisecond

// optionsOf are those of the queue shared by a name. Except for singly, processes that
// have ended are known for as long as a slow machine may take to get to asking.
func optionsOf(name string) quark.Options {
	switch name {
	case singly:
		return quark.Options{HoldTime: shortHold, MinAgg: true, CacheGraceTime: shortGrace}
	case joining:
		return patient(firstHold())
	}
	return patient(shortHold)
}

// shared is the queue of the tests that need no other and run in one process.
var shared struct {
	*quark.Queue
	hold   time.Duration // its HoldTime
	atOpen quark.Stats
}

// share opens it. The first wait makes a descriptor more, which is not to be taken
// for one that a test has left.
func share(t *testrun.T, name string) {
	opts := optionsOf(name)
	shared.hold = opts.HoldTime
	shared.Queue = (&test{T: t}).open(opts)
	var err error
	if shared.atOpen, err = shared.Stats(); err != nil {
		t.Fatalf("statistics: %v", err)
	}
	if err := shared.Block(0); err != nil {
		t.Fatalf("block: %v", err)
	}
}

// useShared is to use the queue that is shared by this name, or one like it where
// there is none because the test runs by itself.
func (t *test) useShared(name string) *quark.Queue {
	if shared.Queue == nil {
		return t.open(optionsOf(name))
	}
	t.q, t.hold = shared.Queue, shared.hold
	return t.q
}

// listen is for tests that need a queue as anyone would open it.
func (t *test) listen() *quark.Queue { return t.useShared(listening) }

// openToJoin is for tests of what is joined to one event because it happens within
// HoldTime.
func (t *test) openToJoin() { t.useShared(joining) }

func patient(hold time.Duration) quark.Options {
	return quark.Options{HoldTime: hold, CacheGraceTime: time.Hour}
}

// firstHold is the HoldTime to begin with: see tooSlow.
func firstHold() time.Duration {
	if inGuest() {
		return 250 * time.Millisecond // it may be emulated
	}
	return 150 * time.Millisecond
}

// close closes the queue.
func (t *test) close() {
	if t.q != nil && t.q != shared.Queue {
		t.closeQueue(t.q)
	}
	t.q = nil
}

func (t *test) closeQueue(q *quark.Queue) {
	t.Waiting("the queue to close")
	begin := time.Now()
	if err := q.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if t.Verbose >= 2 {
		t.Logf("closed in %v", time.Since(begin))
	}
}

// inGuest tells whether this runs in a guest that is there for the tests.
func inGuest() bool { return os.Getenv("QUARK_INITRAMFS") == "1" }

// tooSlow reports whether the time since p was forked is too near to HoldTime for
// what happened to be joined to one event. How quick a machine is differs a lot, so
// the time is found by trying: there is a new queue with more time then.
func (t *test) tooSlow(p *proc) bool {
	took := time.Duration(now() - p.before)
	if t.Verbose >= 2 {
		t.Logf("took %v of a hold time of %v", took, t.hold)
	}
	if took <= t.hold/2 {
		return false
	}
	t.Logf("%v is too long for a hold time of %v", took, t.hold)
	t.open(patient(max(2*t.hold, 4*took)))
	return true
}

// pump takes what the queue has now.
func (t *test) pump() {
	for {
		ev, err := t.q.Get()
		switch {
		case err == nil:
			t.gets++
			t.events = append(t.events, ev.Clone())
			if t.Verbose >= 3 {
				t.Logf("%s", ev.AppendDump(nil))
			}
		case errors.Is(err, quark.ErrNothing):
			return
		case errors.Is(err, quark.ErrFiltered):
			t.gets++
		default:
			t.Fatalf("get: %v", err)
		}
	}
}

// await takes events until cond holds.
func (t *test) await(what string, cond func() bool) {
	t.Waiting(what)
	if t.Verbose >= 2 {
		t.Logf("waiting for %s", what)
	}
	// Less than the whole test may take: something is wrong long before.
	patience := t.Limit / 3
	nap := 2 * time.Millisecond
	for end := time.Now().Add(patience); ; {
		t.pump()
		if cond() {
			return
		}
		now := time.Now()
		if now.After(end) || now.After(t.Deadline) {
			t.Hang(patience, what)
		}
		// Short, as cond may be about other things than events; but a guest needs
		// half a millisecond for each look.
		if err := t.q.Block(nap); err != nil {
			t.Fatalf("block: %v", err)
		}
		nap = min(nap+nap/4, 30*time.Millisecond)
	}
}

// awaitEvent takes events until one of p's satisfies want, also among those
// that have come already.
func (t *test) awaitEvent(p *proc, what string, want func(*quark.Event) bool) (found *quark.Event) {
	next := p.first
	t.await(fmt.Sprintf("%s of pid %d", what, p.PID), func() bool {
		for ; next < len(t.events); next++ {
			if ev := t.events[next]; p.owns(ev) && want(ev) {
				found = ev
				return true
			}
		}
		return false
	})
	return found
}

// has makes a condition for awaitEvent: all of kinds are in the event.
func has(kinds engine.Events) func(*quark.Event) bool {
	return func(ev *quark.Event) bool { return ev.Events&kinds == kinds && !ev.Thread }
}

// settle takes events until all that happened before have been delivered.
func (t *test) settle() {
	p := t.spawn(script().Exit(0), barefork{Share: true})
	t.reap(p)
	t.awaitEvent(p, "EXIT", has(engine.EventExit))
}

// of returns what was delivered about p, its threads included.
func (t *test) of(p *proc) (list []*quark.Event) {
	for _, ev := range t.events[p.first:] {
		if p.owns(ev) {
			list = append(list, ev)
		}
	}
	return list
}

// count counts p's events that have one of the kinds.
func (t *test) count(p *proc, kinds engine.Events) (n int) {
	for _, ev := range t.of(p) {
		if ev.Events&kinds != 0 && !ev.Thread {
			n++
		}
	}
	return n
}

// wantLives checks that each process, which has ended, had one FORK, so many
// EXECs and one EXIT with the status that wait4 returned, in that order. It returns
// the events of the EXITs.
func (t *test) wantLives(execs int, all ...*proc) (exits []*quark.Event) {
	for _, p := range all {
		exits = append(exits, t.awaitEvent(p, "EXIT", has(engine.EventExit)))
	}
	t.settle()
	for i, p := range all {
		for _, want := range []struct {
			kind engine.Events
			n    int
		}{{engine.EventFork, 1}, {engine.EventExec, execs}, {engine.EventExit, 1}} {
			if got := t.count(p, want.kind); got != want.n {
				t.Errorf("pid %d: %d events with %s, want %d: %s", p.PID, got, want.kind, want.n, t.history(p))
			}
		}
		if list := t.of(p); list[0].Events&engine.EventFork == 0 || list[len(list)-1] != exits[i] {
			t.Errorf("pid %d: events out of order: %s", p.PID, t.history(p))
		}
		t.checkBirth(t.of(p)[0], p)
		t.checkExit(exits[i], p, true)
	}
	return exits
}

// wantLife is wantLives of one process.
func (t *test) wantLife(p *proc, execs int) *quark.Event { return t.wantLives(execs, p)[0] }

// history shows p's events.
func (t *test) history(p *proc) (s string) {
	for _, ev := range t.of(p) {
		s += fmt.Sprintf("[%s tid %d at %d]", ev.Events, ev.TID, ev.Time)
	}
	if s == "" {
		return "no events"
	}
	return s
}

// reported is whether the backend reports events of a kind, and why not.
func (t *test) reported(k engine.Kind) (ok bool, why string) {
	c := t.q.Capabilities().Kinds[k]
	return c.Origin != engine.OriginNone, c.Via
}

// needKind skips the test if the backend does not report events of the kind.
func (t *test) needKind(k engine.Kind) {
	if ok, why := t.reported(k); !ok {
		t.Skipf("%s does not report %s here: %s", t.Backend, k, why)
	}
}

// fields are those that, by the capability table, come with events of the kinds.
func (t *test) fields(kinds engine.Events) (s engine.Fields) {
	for f, c := range t.q.Capabilities().Fields {
		if c.Origin != engine.OriginNone && c.At&kinds != 0 {
			s = s.With(engine.Field(f))
		}
	}
	return s
}

// lost is what was lost of events that the test's own processes could have made:
// without those that the kernel skipped because programs were preempted, which may
// be anyone's, of threads that nobody asked for too. One of its own would be missed.
func lost(s quark.Stats) uint64 { return s.Lost() - s.Source.Lost[engine.LossSkipped] }

// now is CLOCK_MONOTONIC, the clock of the events.
func now() uint64 {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // cannot fail
	return uint64(ts.Nano())
}

// self is the path of this program.
func (t *test) self() string {
	path, err := os.Executable()
	if err != nil {
		t.Fatalf("find this program: %v", err)
	}
	return path
}
