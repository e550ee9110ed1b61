package main

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine"
)

// probe opens and closes a queue.
func probe(t *test) {
	before := inheritable(t)
	v := t.open(quark.Options{})
	q := v.q
	if q.Backend() != v.backend {
		t.Errorf("backend is %q", q.Backend())
	}
	if a := q.Attempts(); len(a) > 0 {
		t.Errorf("tried %v first", a)
	}
	for _, k := range []engine.Kind{engine.KindExit, engine.KindFork, engine.KindExec} {
		if c := q.Capabilities().Kinds[k]; c.Origin == engine.OriginNone {
			t.Errorf("%s is not reported: %s", k, c.Via)
		}
	}
	// Programs that are executed later must not inherit descriptors.
	for fd, what := range inheritable(t) {
		if before[fd] == "" {
			t.Errorf("descriptor %s (%s) is not closed on exec", fd, what)
		}
	}
	t.pump()
	t.close(v)
	if _, err := q.Get(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("get after close: %v", err)
	}
	if err := q.Block(0); !errors.Is(err, os.ErrClosed) {
		t.Errorf("block after close: %v", err)
	}
}

// inheritable returns the open descriptors that programs inherit, and what they are of.
func inheritable(t *test) map[string]string {
	dir, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatalf("%v", err)
	}
	open := make(map[string]string)
	for _, d := range dir {
		fd, _ := strconv.Atoi(d.Name())
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			open[d.Name()], _ = os.Readlink("/proc/self/fd/" + d.Name())
		}
	}
	return open
}

// stats compares the counters with what the test did.
func stats(t *test) {
	t.watch(joined)
	t.each(func(v *view) {
		s := v.atOpen
		// Events from before the first reading of /proc are applied, not delivered.
		if n := s.Aggregations + s.NonAggregations + s.GarbageCollections + s.Late + s.Lost(); n != 0 || s.Insertions != s.Removals+uint64(s.Buffered) {
			v.Errorf("events are delivered or missing at open: %+v", s)
		}
		if s.Backend != v.backend {
			v.Errorf("backend is %q", s.Backend)
		}
		if known := v.q.Lookup(uint32(os.Getpid())); known == nil || s.Processes < 1 {
			v.Errorf("this process is not known: %d are", s.Processes)
		}
	})
	const n = 20
	var short uint64 // lives that must have been joined to one event
	var last *proc
	for range n {
		last = t.spawn(script().Exit(0), barefork{Share: true})
		t.reap(last)
		if last.age() < joinedHold/2 {
			short++
		}
	}
	t.each(func(v *view) {
		v.exit(last)
		before, s := v.before, v.stats()
		if s.Insertions-before.Insertions < 2*n || s.Removals+uint64(s.Buffered) != s.Insertions {
			v.Errorf("%d insertions (at least %d were made), %d removals and %d buffered", s.Insertions-before.Insertions, 2*n, s.Removals, s.Buffered)
		}
		joined, single := s.Aggregations-before.Aggregations, s.NonAggregations-before.NonAggregations
		if joined+single != uint64(len(v.events)) {
			v.Errorf("%d aggregations and %d others, but %d events were delivered", joined, single, len(v.events))
		}
		if joined < short {
			v.Errorf("%d aggregations, %d lives were short", joined, short)
		}
		if lost(s) != lost(before) {
			v.Errorf("%d events lost: %v", s.Lost(), s.Source.Lost)
		}
		v.counted()
	})
}

// twoQueues opens two more queues of each backend, and closes the older of them first.
func twoQueues(t *test) {
	t.watch(single)
	second, third := t.openEach(options(single)), t.openEach(options(single))
	t.wantWorking()
	t.close(second...)
	t.wantWorking()
	t.close(third...)
	t.wantWorking()
}
