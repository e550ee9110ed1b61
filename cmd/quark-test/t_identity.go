package main

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine"
)

// pidReuse has one pid twice within the grace time.
func pidReuse(t *test) {
	t.watch()
	for _, c := range []struct {
		gap  time.Duration // from the birth of the first to that of the second
		seen bool          // the first lives until its FORK has been delivered
	}{
		{0, false},
		// Start times of /proc are in ticks; after some they differ.
		{3 * engine.ProcStartUnit, true},
		// What /proc shows when the backend looks is the second.
		{3 * engine.ProcStartUnit, false},
	} {
		gap := c.gap
		var first *proc
		if c.seen {
			first = t.spawnSeen(11, 0)
			t.reap(first)
		} else {
			first = t.spawn(script().Exit(11), barefork{})
			t.reapBlind(first)
		}
		if left := time.Duration(first.born) + gap - time.Duration(now()); left > 0 {
			time.Sleep(left) // nothing may be read meanwhile
		}
		second := t.spawnSeen(12, first.PID)
		t.reap(second)
		if first.PID != second.PID {
			t.Fatalf("the scenario did not do its work: pids %d and %d", first.PID, second.PID)
		}

		t.awaitEvent(second, "EXIT", has(engine.EventExit))
		t.settle()
		t.each(func(v *view) { v.checkReuse(first, second, gap, c.seen) })
	}
}

// checkReuse checks the lives of two processes with the same pid, of which the second
// was born so long after the first; known is whether the first was looked at in time.
func (v *view) checkReuse(first, second *proc, gap time.Duration, known bool) {
	old, young := v.exit(first), v.exit(second)
	v.checkStart(old, first)
	v.checkStart(young, second)
	v.checkExit(old, first, true)
	v.checkExit(young, second, true)
	if n := v.count(first, engine.EventFork); n != 2 {
		v.Errorf("%d FORKs of two processes: %s", n, v.history(first))
	}
	if n := v.count(first, engine.EventExit); n != 2 {
		v.Errorf("%d EXITs of two processes: %s", n, v.history(first))
	}
	if p := v.q.Lookup(uint32(first.PID)); p == nil || p.Task.Exit.Code() != 12 {
		v.Errorf("the table's process of pid %d is not the second", first.PID)
	}
	of := func(name string, ev *event, code int) (id quark.Identity) {
		id, ok := ev.Process.Identity()
		if !ok {
			if known || name == "second" || v.q.Capabilities().Fields[engine.FieldStart].Origin == engine.OriginKernel {
				v.Errorf("the %s process has no start time", name)
			}
			return id
		}
		if gap == 0 && ev.Process.StartUnit > 1 {
			return id // too coarse to tell them apart
		}
		if p := v.q.LookupIdentity(id); p == nil || p.Task.Exit.Code() != code || !p.Exited {
			v.Errorf("the %s process is not found by its identity %v", name, id)
		}
		return id
	}
	a, b := of("first", old, 11), of("second", young, 12)
	if a == b && a != (quark.Identity{}) && (gap > 0 || old.Process.StartUnit == 1) {
		v.Errorf("both processes have the identity %v", a)
	}
}

// spawnSeen starts a process of that pid, or any for 0, which ends with the
// code after its FORK has been delivered: all that the backend reads of it has been
// read then.
func (t *test) spawnSeen(code, pid int) *proc {
	end := t.gate("the end")
	p, err := t.trySpawn(script().WaitFor(end.r).Exit(code), barefork{PID: pid})
	if errors.Is(err, unix.EEXIST) { // someone else has got it meanwhile
		t.await("the pid to be free", func() bool {
			p, err = t.trySpawn(script().WaitFor(end.r).Exit(code), barefork{PID: pid})
			return !errors.Is(err, unix.EEXIST)
		})
	}
	if err != nil {
		t.Fatalf("start a process with pid %d: %v", pid, err)
	}
	t.awaitEvent(p, "FORK", has(engine.EventFork))
	end.open()
	return p
}
