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
	q := t.listen()
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

		old := t.awaitEvent(first, "EXIT", has(engine.EventExit))
		young := t.awaitEvent(second, "EXIT", has(engine.EventExit))
		t.settle()
		t.checkStart(old, first)
		t.checkStart(young, second)
		t.checkExit(old, first, true)
		t.checkExit(young, second, true)
		if n := t.count(first, engine.EventFork); n != 2 {
			t.Errorf("%d FORKs of two processes: %s", n, t.history(first))
		}
		if n := t.count(first, engine.EventExit); n != 2 {
			t.Errorf("%d EXITs of two processes: %s", n, t.history(first))
		}
		if known := q.Lookup(uint32(first.PID)); known == nil || known.Task.Exit.Code() != 12 {
			t.Errorf("the table's process of pid %d is not the second", first.PID)
		}
		of := func(name string, ev *quark.Event, code int) (id quark.Identity) {
			id, ok := ev.Process.Identity()
			if !ok {
				if c.seen || name == "second" || t.q.Capabilities().Fields[engine.FieldStart].Origin == engine.OriginKernel {
					t.Errorf("the %s process has no start time", name)
				}
				return id
			}
			if gap == 0 && ev.Process.StartUnit > 1 {
				return id // too coarse to tell them apart
			}
			if p := q.LookupIdentity(id); p == nil || p.Task.Exit.Code() != code || !p.Exited {
				t.Errorf("the %s process is not found by its identity %v", name, id)
			}
			return id
		}
		a, b := of("first", old, 11), of("second", young, 12)
		if a == b && a != (quark.Identity{}) && (gap > 0 || old.Process.StartUnit == 1) {
			t.Errorf("both processes have the identity %v", a)
		}
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
