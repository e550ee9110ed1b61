package cnproc

import (
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/nlsocket"
	"github.com/quark-linux/quark/backends/internal/pace"
	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/clock"
)

// fakeProc is a /proc in which every process looks the same.
type fakeProc struct {
	known  engine.Fields
	noExec bool
	cgroup string // if not ""
	ran    bool
}

func (f *fakeProc) Read(pid uint32, want engine.Fields, ev *engine.RawEvent) (procfs.Status, error) {
	ev.Task.Known |= f.known & want
	ev.Task.SID, ev.Task.Cred = 1, engine.Credentials{UID: 7, EUID: 8, GID: 5, EGID: 6}
	if f.known&want&engine.FieldComm.Set() != 0 {
		ev.Set(engine.FieldComm, []byte("new"))
	}
	if f.cgroup != "" {
		ev.Set(engine.FieldCgroup, []byte(f.cgroup))
	}
	return procfs.Status{State: 'R', Ran: f.ran, ForkNoExec: f.noExec}, nil
}

func (f *fakeProc) ExitStatus(uint32) (int32, uint64, bool) {
	return 15, 1, f.known.Has(engine.FieldExit)
}

// The status in /proc replaces the one of the message where the process is read anyway.
func TestStatusOfZombie(t *testing.T) {
	for want, status := range map[engine.Fields]int32{engine.FieldExit.Set(): 3 << 8, engine.SetOf(engine.FieldExit, engine.FieldStart): 15} {
		e := newEnricher(&fakeProc{known: engine.AllFields}, newClock(), new(loss), ms)
		ev := &engine.RawEvent{Kind: engine.KindExit, PID: 2, TID: 2, Time: clock.Monotonic()}
		ev.Task.Known, ev.Task.Exit.WaitStatus = engine.FieldExit.Set(), 3<<8
		e.add(ev, want)
		e.readAll()
		to := &sink{room: 9}
		if e.release(to, clock.Monotonic()+ms, false); len(to.events) != 1 || ev.Task.Exit.WaitStatus != status {
			t.Errorf("%v: status %#x, want %#x, %d events", want, ev.Task.Exit.WaitStatus, status, len(to.events))
		}
	}
}

func queue(e *enricher, kind engine.Kind, time uint64) *engine.RawEvent {
	ev := &engine.RawEvent{Kind: kind, PID: 1, TID: 1, Time: time}
	e.add(ev, procfs.Readable)
	return ev
}

// Fields from /proc are cached, except those that never change and the ids in the message.
func TestReadingIsCached(t *testing.T) {
	for _, kind := range []engine.Kind{engine.KindFork, engine.KindExec, engine.KindIDChange} {
		e := newEnricher(&fakeProc{known: procfs.Readable, noExec: true}, newClock(), new(loss), ms)
		ev := &engine.RawEvent{Kind: kind, PID: 2, TID: 2, Time: clock.Monotonic()}
		told := engine.FieldUIDs.Set()
		ev.Task.Known, ev.Task.Cred = told, engine.Credentials{UID: 3, EUID: 4}
		e.add(ev, procfs.Readable)
		e.readAll()
		to := &sink{room: 9}
		e.release(to, clock.Monotonic()+ms, false)
		if x := &ev.Task; len(to.events) != 1 || x.Known != procfs.Readable|told || x.Cached != x.Known&^(fixed|told) {
			t.Errorf("%v: known %v, cached %v, %d events", kind, x.Known, x.Cached, len(to.events))
		}
		if c := ev.Task.Cred; c.UID != 3 || c.EUID != 4 || c.GID != 5 {
			t.Errorf("%v: ids %+v", kind, c)
		}
	}
}

// A change of user ids may be half of one of both: it carries the group ids.
func TestGroupIDsOfUID(t *testing.T) {
	s := offline(Options{Enrich: EnrichNone})
	to := &sink{room: 9}
	s.to = to
	s.message(record(UID, 0, 1, clock.Monotonic(), 5, 5, 1000, 1001), true)
	s.enrich.release(to, 0, true)
	if x := &to.events[0].Task; x.Cached&ofGroup != ofGroup || x.Known&ofGroup != 0 {
		t.Errorf("cached %v, known %v", x.Cached, x.Known)
	}
}

// A message from before the reading removes the fields that it changes.
func TestMessageBeforeReading(t *testing.T) {
	for _, c := range []struct {
		name string
		m    message
		lost engine.Fields
		late engine.Fields // lost also if the message is of after the reading
	}{
		{"another user", message{what: UID}, ofUser, 0},
		{"another group", message{what: GID}, ofGroup, 0},
		{"another session", message{what: SID}, ofSession, 0},
		{"another comm", message{what: Comm}, engine.FieldComm.Set(), 0},
		{"another image", message{what: Exec}, ofExec, 0},
		{"another image, perhaps of a thread", message{what: Exec, threads: true}, ofExec | engine.FieldsIDs, 0},
		{"another process", message{what: Fork}, procfs.Readable, procfs.Readable},
	} {
		for _, after := range []bool{true, false} {
			e := newEnricher(&fakeProc{known: procfs.Readable}, newClock(), new(loss), ms)
			ev := queue(e, engine.KindExec, clock.Monotonic())
			e.readAll()
			m, want := c.m, c.late
			m.tid, m.pid, m.time = 1, 1, e.at(0).time+1
			if !after {
				m.time, want = ev.Time, c.lost
			}
			e.note(&m)
			if got := procfs.Readable &^ ev.Task.Known; got != want&procfs.Readable {
				t.Errorf("%s, after the reading %v: lost %v, want %v", c.name, after, got, want)
			}
			// A thread's changes to itself do not concern the process.
			known := ev.Task.Known
			if m.tid = 2; m.what != SID && m.what != Exec {
				if e.note(&m); ev.Task.Known != known {
					t.Errorf("%s of a thread: lost %v", c.name, known&^ev.Task.Known)
				}
			}
		}
	}
}

// A change after two execs removes the fields of the first that were read after the second.
func TestChangeAfterSecondExec(t *testing.T) {
	for _, late := range []bool{true, false} {
		e := newEnricher(&fakeProc{known: procfs.Readable}, newClock(), new(loss), ms)
		first := queue(e, engine.KindExec, clock.Monotonic())
		second := message{what: Exec, tid: 1, pid: 1, time: clock.Monotonic()}
		sid := message{what: SID, tid: 1, pid: 1, time: clock.Monotonic()}
		e.readAll()
		if !late {
			second.time = clock.Monotonic()
			sid.time = clock.Monotonic()
		}
		e.note(&second)
		queue(e, engine.KindExec, second.time)
		e.note(&sid)
		if known := first.Task.Known&ofSession != 0; known == late {
			t.Errorf("the first was read after the change %v: its session is known %v", late, known)
		}
	}
}

// A child that may not have run yet is not in its cgroup yet.
func TestCgroupOfNewChild(t *testing.T) {
	for _, c := range []struct {
		cgroup string
		ran    bool
		kind   engine.Kind
		known  bool
	}{
		{"/", false, engine.KindFork, false}, {"/", true, engine.KindFork, true},
		{"/a", false, engine.KindFork, true}, {"/", false, engine.KindExec, true},
	} {
		proc := &fakeProc{known: procfs.Readable, noExec: c.kind == engine.KindFork, cgroup: c.cgroup, ran: c.ran}
		e := newEnricher(proc, newClock(), new(loss), ms)
		ev := queue(e, c.kind, clock.Monotonic())
		e.readAll()
		if got := ev.Task.Known.Has(engine.FieldCgroup); got != c.known {
			t.Errorf("%+v: known %v", c, got)
		}
	}
}

// The next process of a pid removes no fields from one that was read and is certainly older.
func TestNextProcessOfTheNumber(t *testing.T) {
	const tick = engine.ProcStartUnit
	for _, c := range []struct {
		name  string
		start uint64 // how many ticks older than the next the process is that was read
		known bool
	}{{"older", 1, true}, {"of the same tick", 0, false}, {"of unknown age", 1 << 40, false}} {
		e := newEnricher(&fakeProc{known: procfs.Readable}, newClock(), new(loss), ms)
		ev := queue(e, engine.KindExec, clock.Monotonic())
		e.readAll()
		next := clock.Monotonic()
		if ev.Task.Start = 0; c.start < 1<<40 {
			ev.Task.Start = e.clock.Boot(next) - c.start*tick
		}
		e.note(&message{what: Fork, pid: 1, tid: 1, time: next})
		if got := ev.Task.Known.Has(engine.FieldCwd); got != c.known {
			t.Errorf("%s: known is %v", c.name, got)
		}
	}
}

// After a loss, fields from /proc of earlier events are unknown.
func TestLossTakesReadings(t *testing.T) {
	e := newEnricher(&fakeProc{known: procfs.Readable}, newClock(), new(loss), ms)
	read := queue(e, engine.KindExec, clock.Monotonic())
	e.readAll()
	unread := queue(e, engine.KindExec, clock.Monotonic())
	loss := clock.Monotonic()
	e.distrust(&engine.Gap{To: loss})
	old, fresh := queue(e, engine.KindExec, loss), queue(e, engine.KindExec, loss+1)
	e.readAll()
	for _, ev := range []*engine.RawEvent{read, unread, old} {
		if ev.Task.Known != 0 {
			t.Errorf("known of before the loss: %v", ev.Task.Known)
		}
	}
	if fresh.Task.Known == 0 {
		t.Error("nothing is known of after the loss")
	}
}

// A second end of the pid can be lost: the first status may belong to either process.
func TestLossAfterUnsureEnd(t *testing.T) {
	for _, follows := range []string{"a gap", "another end", "an exec", "nothing"} {
		e := newEnricher(&fakeProc{}, newClock(), new(loss), ms)
		end := &engine.RawEvent{Kind: engine.KindExit, PID: 1, TID: 1, Time: clock.Monotonic()}
		end.Task.Known = engine.FieldExit.Set()
		e.addEnd(end, 0, &fact{unsure: true})
		switch follows {
		case "a gap":
			e.distrust(&engine.Gap{From: end.Time + 1, To: end.Time + 2, Count: 7})
		case "another end":
			e.note(&message{what: Exit, pid: 1, tid: 1, time: end.Time + 1})
		case "an exec": // no process has ended
			e.note(&message{what: Exec, pid: 1, tid: 1, time: end.Time + 1})
		}
		to := &sink{room: 9}
		e.release(to, clock.Monotonic(), true)
		if follows == "an exec" {
			if len(to.events) != 0 {
				t.Errorf("%s follows: %d events", follows, len(to.events))
			}
		} else if known := follows == "nothing"; len(to.events) != 1 || to.events[0].Task.Known.Has(engine.FieldExit) != known {
			t.Errorf("%s follows: %d events", follows, len(to.events))
		}
	}
}

// Events that are delivered before the doubt time is over, because the sink is full or the source
// ends, lack the fields that were read.
func TestReadingInFullSink(t *testing.T) {
	for _, room := range []int{1, 100} {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		s := offline(Options{Enrich: EnrichNone})
		s.fd, s.pace, s.finishing = fds[0], &pace.Pacer{}, room == 100
		proc := &fakeProc{known: procfs.Readable}
		s.enrich = newEnricher(proc, s.clock, &s.loss, ms)
		now := clock.Monotonic()
		fill(s.batch, record(Exec, 0, 1, now, 10, 10), record(UID, 0, 2, now+1, 11, 11, 7, 8))
		to := &sink{room: room}
		if err := s.Populate(to); err != nil {
			t.Fatal(err)
		}
		if len(to.events) == 0 || to.events[0].Task.Known != 0 {
			t.Errorf("room for %d: %d events, known %v", room, len(to.events), to.events[0].Task.Known)
		}
		if (s.unread == 0) != s.finishing {
			t.Errorf("room for %d: %d events are counted as not read", room, s.unread)
		}
		unix.Close(fds[0])
		unix.Close(fds[1])
	}
}

// A gap that comes before messages which wait for room begins no later than they do.
func TestGapBeforeWhatWaits(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { unix.Close(fds[0]); unix.Close(fds[1]) }()
	for _, room := range []int{1, 100} {
		s := offline(Options{Enrich: EnrichNone})
		s.fd, s.pace = fds[0], &pace.Pacer{}
		now := clock.Monotonic()
		fill(s.batch, record(Exec, 0, 1, now, 10, 10), record(Exec, 0, 2, now+1, 11, 11))
		s.loss.overrun = overrun{from: now + 10, to: now + 30, reported: now + 20, dropped: 1}
		want, to := now+10, &sink{room: room}
		if room == 1 {
			want = now + 1
		}
		if err := s.Populate(to); err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(to.events, func(ev *engine.RawEvent) bool { return ev.Kind == engine.KindGap })
		if i < 0 || to.events[i].Time != want {
			t.Errorf("room for %d: %d events, the gap is %d; wanted it at %d", room, len(to.events), i, want)
		}
	}
}

// fill adds messages to a batch as if the kernel had sent them.
func fill(b *nlsocket.Batch, records ...[]byte) {
	for _, r := range records {
		b.Fill(r)
	}
}

// The queue releases all events, in their order, none before its doubt is over.
func TestQueueKeepsOrder(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	e := newEnricher(&fakeProc{known: procfs.Readable}, newClock(), new(loss), ms)
	to := &sink{room: 1 << 20}
	var want []*engine.RawEvent
	for range 5000 {
		switch rnd.IntN(4) {
		case 0, 1:
			ev := &engine.RawEvent{Kind: engine.Kind(rnd.IntN(3)), PID: 1 + rnd.Uint32N(9), Time: clock.Monotonic()}
			fields := engine.Fields(0)
			if rnd.IntN(2) == 0 {
				fields = procfs.Readable
			}
			e.add(ev, fields)
			want = append(want, ev)
		case 2:
			e.readAll()
			e.note(&message{what: Exec, pid: 1 + rnd.Uint32N(9), time: clock.Monotonic()})
		default:
			noted := clock.Monotonic() - rnd.Uint64N(2*ms)
			n := len(to.events)
			times := map[*engine.RawEvent]uint64{}
			for pos := e.head; pos < e.end; pos++ {
				times[e.at(pos).ev] = e.at(pos).time
			}
			e.release(to, noted, false)
			for _, ev := range to.events[n:] {
				if times[ev] != 0 && noted < times[ev]+ms {
					t.Fatal("released in doubt")
				}
			}
		}
	}
	e.release(to, 0, true)
	if len(to.events) != len(want) || e.len() != 0 || len(e.byPID.In) != 0 {
		t.Fatalf("%d events of %d, %d are left, %d processes", len(to.events), len(want), e.len(), len(e.byPID.In))
	}
	for i, ev := range to.events {
		if ev != want[i] {
			t.Fatalf("event %d is out of order", i)
		}
	}
}
