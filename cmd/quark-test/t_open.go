package main

import (
	"errors"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine"
)

// probe opens and closes.
func probe(t *test) {
	before := descriptors(t)
	q := t.open(quark.Options{})
	if q.Backend() != t.Backend {
		t.Errorf("backend is %q", q.Backend())
	}
	if a := q.Attempts(); len(a) > 0 {
		t.Errorf("tried %v first", a)
	}
	for _, k := range []engine.Kind{engine.KindFork, engine.KindExec, engine.KindExit} {
		if ok, why := t.reported(k); !ok {
			t.Errorf("%s is not reported: %s", k, why)
		}
	}
	for fd := range descriptors(t) {
		if before[fd] {
			continue
		}
		// What is executed later must not get them.
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			link, _ := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
			t.Errorf("descriptor %d (%s) is not closed on exec", fd, link)
		}
	}
	t.pump()
	t.close()
	if _, err := q.Get(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("get after close: %v", err)
	}
	if err := q.Block(0); !errors.Is(err, os.ErrClosed) {
		t.Errorf("block after close: %v", err)
	}
	after := descriptors(t)
	for fd := range after {
		if !before[fd] {
			t.Errorf("descriptor %d is open after close", fd)
		}
	}
}

// descriptors are those that are open.
func descriptors(t *test) map[int]bool {
	dir, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatalf("%v", err)
	}
	open := make(map[int]bool)
	for _, d := range dir {
		fd, _ := strconv.Atoi(d.Name())
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil { // not the directory itself
			open[fd] = true
		}
	}
	return open
}

// stats counts what it makes and compares.
func stats(t *test) {
	q := t.listen()
	s, err := q.Stats()
	if err != nil {
		t.Fatalf("%v", err)
	}
	before := s
	if shared.Queue != nil {
		s = shared.atOpen
	}
	if n := s.Insertions + s.Removals + s.Aggregations + s.NonAggregations + s.GarbageCollections + s.Late + uint64(s.Buffered) + s.Lost(); n != 0 {
		t.Errorf("counters are not zero at open: %+v", s)
	}
	if s.Backend != t.Backend {
		t.Errorf("backend is %q", s.Backend)
	}
	if s.Processes < 1 {
		t.Errorf("no processes at open")
	}
	const n = 20
	var short uint64 // lives that must have been joined to one event
	var last *proc
	for range n {
		last = t.spawn(script().Exit(0), barefork{Share: true})
		t.reap(last)
		if time.Duration(now()-last.before) < t.hold/2 {
			short++
		}
	}
	t.awaitEvent(last, "EXIT", has(engine.EventExit))
	if s, err = q.Stats(); err != nil {
		t.Fatalf("%v", err)
	}
	if s.Insertions-before.Insertions < 2*n || s.Removals+uint64(s.Buffered) != s.Insertions {
		t.Errorf("%d insertions (at least %d were made), %d removals and %d buffered", s.Insertions-before.Insertions, 2*n, s.Removals, s.Buffered)
	}
	joined, single := s.Aggregations-before.Aggregations, s.NonAggregations-before.NonAggregations
	if joined+single != t.gets {
		t.Errorf("%d aggregations and %d others, but %d events were delivered", joined, single, t.gets)
	}
	if joined < short {
		t.Errorf("%d aggregations, %d lives were short", joined, short)
	}
	if lost(s) != lost(before) {
		t.Errorf("%d events lost: %v", s.Lost(), s.Source.Lost)
	}
	// Other processes go on meanwhile, so both sides meet only now and then.
	t.await("produced = inserted + lost", func() bool {
		s, err := q.Stats()
		return err == nil && s.Source.Produced == s.Insertions+s.Lost()
	})
}

// cacheGrace looks processes up before, during and after the grace time.
func cacheGrace(t *test) {
	const grace = shortGrace
	q := t.useShared(singly)
	me := q.Lookup(uint32(os.Getpid()))
	if me == nil {
		t.Fatalf("this process is not known after opening")
	}
	// /proc was read for it, whatever the backend.
	t.check("this process", me, t.truth(os.Getpid()), engine.AllFields&^engine.FieldExit.Set())
	if p := q.Lookup(1); p == nil || p.PPID != 0 {
		t.Errorf("process 1 is not known, or has a parent")
	}
	var before uint32
	for p := range q.Processes() {
		if p.PID <= before {
			t.Errorf("process %d comes after %d", p.PID, before)
		}
		before = p.PID
	}

	p := t.spawn(script().Exit(5), barefork{})
	t.reap(p)
	exit := t.awaitEvent(p, "EXIT", has(engine.EventExit))
	t.checkExit(exit, p, true)
	// Events are applied when they are delivered: the grace time has just begun.
	found := now()
	gone := func() bool { return q.Lookup(uint32(p.PID)) == nil }
	if gone() {
		t.Fatalf("process %d is not known right after its EXIT", p.PID)
	}
	t.await("the grace time of the process to end", gone)
	if took := time.Duration(now() - p.before); took < grace {
		t.Errorf("process %d was forgotten %v after it was born, the grace time is %v", p.PID, took, grace)
	}
	if took := time.Duration(now() - found); took > grace+t.Limit/10 {
		t.Errorf("process %d was known for %v after its EXIT, the grace time is %v", p.PID, took, grace)
	}
	if s, err := q.Stats(); err != nil || s.GarbageCollections < 1 {
		t.Errorf("%d processes were forgotten, %v", s.GarbageCollections, err)
	}
}
