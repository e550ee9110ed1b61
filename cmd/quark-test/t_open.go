package main

import (
	"errors"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine"
)

// probe opens and closes a queue of each backend.
func probe(t *test) {
	before := inheritable(t)
	opened := t.openEach(quark.Options{})
	for _, v := range opened {
		v.try(func() { v.probe() })
	}
	// Programs that the test executes later must not inherit descriptors.
	for fd, what := range inheritable(t) {
		if before[fd] == "" {
			t.Errorf("descriptor %s (%s) is not closed on exec", fd, what)
		}
	}
	t.pump()
	t.close(opened...)
	for _, v := range opened {
		if _, err := v.q.Get(); !errors.Is(err, os.ErrClosed) {
			v.Errorf("get after close: %v", err)
		}
		if err := v.q.Block(0); !errors.Is(err, os.ErrClosed) {
			v.Errorf("block after close: %v", err)
		}
	}
}

// probe checks an open queue.
func (v *view) probe() {
	if v.q.Backend() != v.backend {
		v.Errorf("got backend %q", v.q.Backend())
	}
	if a := v.q.Attempts(); len(a) > 0 {
		v.Errorf("got failed attempt %v, want none", a)
	}
	for _, k := range []engine.Kind{engine.KindExit, engine.KindFork, engine.KindExec} {
		if c := v.q.Capabilities().Kinds[k]; c.Origin == engine.OriginNone {
			v.Errorf("%s is not reported: %s", k, c.Via)
		}
	}
}

// inheritable returns the open descriptors without close-on-exec, and their files.
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
	t.eachQueue(func(v *view) {
		s := v.atOpen
		// Events from before the read of /proc update the table but are not delivered.
		if n := s.Aggregations + s.NonAggregations + s.GarbageCollections + s.Late + s.Lost(); n != 0 || s.Insertions != s.Removals+uint64(s.Buffered) {
			v.Errorf("got events delivered or missing at open: %+v", s)
		}
		if s.Backend != v.backend {
			v.Errorf("got backend %q", s.Backend)
		}
		if known := v.q.Lookup(uint32(os.Getpid())); known == nil || s.Processes < 1 {
			v.Errorf("this process is not among the %d in the table", s.Processes)
		}
	})
	const n = 20
	var short uint64 // processes that end so soon that their events are joined
	var last *proc
	for range n {
		last = t.spawn(script().Exit(0), barefork{Share: true})
		t.reap(last)
		if last.age() < joinedHold/2 {
			short++
		}
	}
	t.eachQueue(func(v *view) {
		v.awaitExit(last)
		before, s := v.before, v.stats()
		if s.Insertions-before.Insertions < 2*n || s.Removals+uint64(s.Buffered) != s.Insertions {
			v.Errorf("got %d insertions (want at least %d), %d removals and %d buffered", s.Insertions-before.Insertions, 2*n, s.Removals, s.Buffered)
		}
		joined, single := s.Aggregations-before.Aggregations, s.NonAggregations-before.NonAggregations
		if joined+single != uint64(len(v.events)) {
			v.Errorf("got %d aggregations and %d others, want a sum of %d, the delivered events", joined, single, len(v.events))
		}
		if joined < short {
			v.Errorf("got %d aggregations, want at least %d, the short processes", joined, short)
		}
		if lostEvents(s) != lostEvents(before) {
			v.Errorf("%d events lost: %v", s.Lost(), s.Source.Lost)
		}
		v.awaitBalance()
	})
}

// twoQueues opens two more queues of each backend, and closes the older one first.
func twoQueues(t *test) {
	t.watch(single)
	second, third := t.openEach(queueOptions(single)), t.openEach(queueOptions(single))
	t.checkQueues()
	t.close(second...)
	t.checkQueues()
	t.close(third...)
	t.checkQueues()
}
