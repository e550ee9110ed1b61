package main

import (
	"errors"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/clock"
)

// probe opens and closes a queue.
func probe(t *test) {
	before := inheritable(t)
	v := t.open(quark.Options{})
	q := v.q
	if q.Backend() != v.Backend {
		t.Errorf("backend is %q", q.Backend())
	}
	if a := q.Attempts(); len(a) > 0 {
		t.Errorf("tried %v first", a)
	}
	for _, k := range []engine.Kind{engine.KindFork, engine.KindExec, engine.KindExit} {
		if ok, why := v.reported(k); !ok {
			t.Errorf("%s is not reported: %s", k, why)
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
	t.watch()
	before := make(map[*view]quark.Stats)
	t.each(func(v *view) {
		s := v.stats()
		before[v] = s
		if v.shared != nil {
			s = v.shared.atOpen
		}
		if n := s.Insertions + s.Removals + s.Aggregations + s.NonAggregations + s.GarbageCollections + s.Late + uint64(s.Buffered) + s.Lost(); n != 0 {
			v.Errorf("counters are not zero at open: %+v", s)
		}
		if s.Backend != v.Backend {
			v.Errorf("backend is %q", s.Backend)
		}
		if s.Processes < 1 {
			v.Errorf("no processes at open")
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
		before, s := before[v], v.stats()
		if s.Insertions-before.Insertions < 2*n || s.Removals+uint64(s.Buffered) != s.Insertions {
			v.Errorf("%d insertions (at least %d were made), %d removals and %d buffered", s.Insertions-before.Insertions, 2*n, s.Removals, s.Buffered)
		}
		joined, single := s.Aggregations-before.Aggregations, s.NonAggregations-before.NonAggregations
		if joined+single != v.gets {
			v.Errorf("%d aggregations and %d others, but %d events were delivered", joined, single, v.gets)
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

// cacheGrace looks processes up before, during and after the grace time.
func cacheGrace(t *test) {
	t.watchSingle()
	me := t.truth(os.Getpid())
	t.each(func(v *view) {
		known := v.q.Lookup(uint32(os.Getpid()))
		if known == nil {
			v.Fatalf("this process is not known after opening")
		}
		// Every backend has read /proc for it.
		v.check("this process", known, me, engine.AllFields&^engine.FieldExit.Set())
		if p := v.q.Lookup(1); p == nil || p.PPID != 0 {
			v.Errorf("process 1 is not known, or has a parent")
		}
		var before uint32
		for p := range v.q.Processes() {
			if p.PID <= before {
				v.Errorf("process %d comes after %d", p.PID, before)
			}
			before = p.PID
		}
	})

	// One backend after the other: while the test waits for the grace time of one, the
	// grace time of what others have delivered ends.
	t.each(func(v *view) {
		p := t.spawn(script().Exit(5), barefork{})
		t.reapBlind(p)
		v.checkGrace(p)
	})
}

// checkGrace checks that a process, which has ended, is forgotten after the grace time.
func (v *view) checkGrace(p *proc) {
	const grace = shortGrace
	v.checkExit(v.exit(p), p, true)
	// Events are applied at delivery, so the grace time has just begun.
	found := clock.Monotonic()
	gone := func() bool { return v.q.Lookup(uint32(p.PID)) == nil }
	if gone() {
		v.Fatalf("process %d is not known right after its EXIT", p.PID)
	}
	v.await("the grace time of the process to end", gone)
	if took := p.age(); took < grace {
		v.Errorf("process %d was forgotten %v after it was born, the grace time is %v", p.PID, took, grace)
	}
	if took := time.Duration(clock.Monotonic() - found); took > grace+v.Limit/10 {
		v.Errorf("process %d was known for %v after its EXIT, the grace time is %v", p.PID, took, grace)
	}
	if s := v.stats(); s.GarbageCollections < 1 {
		v.Errorf("%d processes were forgotten", s.GarbageCollections)
	}
}
