package cnproc

import (
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/clock"
	"github.com/quark-linux/quark/internal/freelist/freelisttest"
)

// TestForkOfSessionLeader reads a process between its setsid(2) and the message of
// that.
func TestForkOfSessionLeader(t *testing.T) {
	c := command(t, "sleep", "1000")
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGKILL}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Wait()
	defer c.Process.Kill()
	proc, err := procfs.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer proc.Close()
	e := newEnricher(proc, newClock(), new(loss), ms)
	for kind, want := range map[engine.Kind]engine.Fields{engine.KindFork: 0, engine.KindExec: ofSession} {
		ev := &engine.RawEvent{Kind: kind, PID: uint32(c.Process.Pid), Time: clock.Monotonic()}
		e.read(&entry{ev: ev, want: ofSession | engine.FieldPPID.Set()})
		if known := ev.Task.Known; known&ofSession != want || !known.Has(engine.FieldPPID) {
			t.Errorf("%v: %v is known", kind, known)
		}
	}
}

// After a loss, what /proc shows when a process has ended is of it only if it shows an older one.
func TestNextOfTheTick(t *testing.T) {
	const tick = engine.ProcStartUnit
	e := newEnricher(nil, new(bootClock), new(loss), ms)
	for _, c := range []struct {
		kind  engine.Kind
		want  engine.Fields
		start uint64
		may   bool
	}{
		{engine.KindExit, engine.FieldStart.Set(), tick, false},
		{engine.KindExit, engine.FieldStart.Set(), tick / 2, true},
		{engine.KindExit, engine.FieldExit.Set(), tick, true},
		{engine.KindFork, procfs.Readable, tick, true},
		{engine.KindFork, procfs.Readable, 2 * tick, false},
	} {
		h := &entry{ev: &engine.RawEvent{Kind: c.kind, Time: tick + 5}, want: c.want}
		if e.mayBe(h, c.start) != c.may {
			t.Errorf("%v at %d of a process of %d", c.kind, h.ev.Time, c.start)
		}
	}
}

// TestQueueOfBurst: the queue is as large as a burst needs, and small again when only few events
// come. Queued events stay.
func TestQueueOfBurst(t *testing.T) {
	e := newEnricher(nil, newClock(), new(loss), ms)
	to := new(sink)
	add := func(n int) {
		for range n {
			e.add(&engine.RawEvent{Kind: engine.KindFork, PID: uint32(e.end)}, 0)
		}
	}
	add(5000)
	if len(e.queue) < 5000 {
		t.Fatalf("a queue of %d for 5,000 events", len(e.queue))
	}
	e.release(to, 0, true)
	e.trim() // the burst has been since the last one
	if len(e.queue) < 5000 {
		t.Errorf("a queue of %d right after a burst: the next one would allocate", len(e.queue))
	}
	add(10)
	for range 2 {
		e.trim()
	}
	if len(e.queue) != minQueue {
		t.Errorf("a queue of %d for 10 events", len(e.queue))
	}
	for pos := e.head; pos < e.end; pos++ {
		if pid := e.at(pos).ev.PID; pid != uint32(pos) {
			t.Errorf("at position %d is the event of %d", pos, pid)
		}
	}
	if n, _ := e.release(to, 0, true); n != 10 || e.len() != 0 {
		t.Errorf("%d events of 10, %d stay", n, e.len())
	}
}

// TestBurstIsGivenBack: the memory for a burst of processes with threads is released.
func TestBurstIsGivenBack(t *testing.T) {
	s := offline(Options{Enrich: EnrichNone})
	seq, time := uint32(0), uint64(ms)
	message := func(what What, union ...uint32) []byte {
		seq++
		time++
		return record(what, 0, seq, time, union...)
	}
	freelisttest.Burst(t, s, 4096, func(n uint32) {
		var births, ends [][]byte
		for i := range n {
			pid, tid := i+10, i+1<<20
			births = append(births, message(Fork, 1, 1, pid, pid), message(Fork, pid, pid, tid, pid))
		}
		for i := range n {
			pid, tid := i+10, i+1<<20
			ends = append(ends, message(Exit, tid, pid, 0, 17, 1, 1), message(Exit, pid, pid, 0, 17, 1, 1))
		}
		got := &sink{room: 1 << 20}
		feed(s, got, births...)
		feed(s, got, ends...)
		s.track.settled(time + 3*maxStraggle)
		s.to, s.track.probes = &sink{}, s.track.probes[:0] // there is no /proc to look at
		s.trim()
	})
	if tr := s.track; len(s.enrich.byPID.In)+len(tr.groups.threads.In)+len(tr.groups.byPID.In)+len(tr.processes.In) != 0 {
		t.Errorf("kept are %d, %d, %d and %d", len(s.enrich.byPID.In), len(tr.groups.threads.In), len(tr.groups.byPID.In), len(tr.processes.In))
	}
}
