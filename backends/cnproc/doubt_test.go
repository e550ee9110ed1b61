package cnproc

import (
	"cmp"
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
	memory uint64
	known  engine.Fields
	noExec bool
	cgroup string // if not ""
	state  byte   // 'R' if 0
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
	return procfs.Status{State: cmp.Or(f.state, 'R'), Ran: f.ran, Memory: f.memory, ForkNoExec: f.noExec}, nil
}

func (f *fakeProc) Status(uint32) (procfs.Status, uint64, error) {
	return procfs.Status{State: f.state, Memory: f.memory}, 0, nil
}

func (f *fakeProc) ExitStatus(uint32) (int32, uint64, bool) { return 0, 0, false }

func queue(e *enricher, kind engine.Kind, time uint64) *engine.RawEvent {
	ev := &engine.RawEvent{Kind: kind, PID: 1, TID: 1, Time: time}
	e.add(ev, procfs.Readable)
	return ev
}

// TestMessageAfterReading notes the message of a change after an exec was read.
func TestMessageAfterReading(t *testing.T) {
	comm := [16]byte{'n', 'e', 'w'}
	uids := engine.Fields(1<<engine.FieldUIDs | 1<<engine.FieldSUID | 1<<engine.FieldCaps)
	gids := engine.Fields(1<<engine.FieldGIDs | 1<<engine.FieldSGID)
	for _, c := range []struct {
		name string
		m    message
		lost engine.Fields
		all  engine.Fields // lost if the message is of before the reading
	}{
		{"the new user", message{what: UID, real: 7, eff: 8}, uids, uids},
		{"the old user", message{what: UID, real: 7, eff: 9}, 0, uids},
		{"the new group", message{what: GID, real: 5, eff: 6}, gids, gids},
		{"the old group", message{what: GID, real: 4, eff: 6}, 0, gids},
		{"the new session", message{what: SID}, ofSession, ofSession},
		{"the new comm", message{what: Comm, comm: comm}, engine.FieldComm.Set(), engine.FieldComm.Set()},
		{"the old comm", message{what: Comm, comm: [16]byte{'x'}}, 0, engine.FieldComm.Set()},
		{"another process", message{what: Fork}, procfs.Readable, procfs.Readable},
	} {
		for _, after := range []bool{true, false} {
			e := newEnricher(&fakeProc{memory: 7, known: procfs.Readable}, newClock(), new(loss), ms)
			ev := queue(e, engine.KindExec, clock.Monotonic())
			e.readAll()
			m, want := c.m, c.lost
			m.tid, m.pid, m.time = 1, 1, e.at(0).time+1
			if !after {
				m.time, want = ev.Time, c.all
			}
			e.note(&m)
			if got := procfs.Readable &^ ev.Task.Known; got != want {
				t.Errorf("%s, after the reading %v: lost %v, want %v", c.name, after, got, want)
			}
			// What a thread does to itself says nothing of the process.
			known := ev.Task.Known
			if m.tid = 2; m.what != SID {
				if e.note(&m); ev.Task.Known != known {
					t.Errorf("%s of a thread: lost %v", c.name, known&^ev.Task.Known)
				}
			}
		}
	}
}

// What is read of an id change is of before the next one, or unknown.
func TestReadingAfterNextChange(t *testing.T) {
	told := engine.Fields(1<<engine.FieldUIDs | 1<<engine.FieldGIDs)
	for _, c := range []struct {
		name string
		told engine.Fields
		cred engine.Credentials
		want engine.Fields
	}{
		{"of user ids", engine.FieldUIDs.Set(), engine.Credentials{UID: 7, EUID: 8}, engine.SetOf(engine.FieldSUID, engine.FieldCaps)},
		{"of user ids, and another", engine.FieldUIDs.Set(), engine.Credentials{UID: 7, EUID: 9}, 0},
		{"of group ids", engine.FieldGIDs.Set(), engine.Credentials{GID: 5, EGID: 6}, engine.FieldSGID.Set()},
		{"of group ids, and another", engine.FieldGIDs.Set(), engine.Credentials{GID: 4, EGID: 6}, 0},
	} {
		e := newEnricher(&fakeProc{memory: 7, known: procfs.Readable}, newClock(), new(loss), ms)
		ev := &engine.RawEvent{Kind: engine.KindIDChange, PID: 1, TID: 1, Time: clock.Monotonic()}
		ev.Task.Cred, ev.Task.Known = c.cred, c.told
		read := ofUser &^ told
		if c.told.Has(engine.FieldGIDs) {
			read = ofGroup &^ told
		}
		e.add(ev, read)
		e.readAll()
		if got := ev.Task.Known &^ told &^ engine.FieldStart.Set(); got != c.want || ev.Task.Known&told != c.told {
			t.Errorf("%s: known %v, want %v with %v", c.name, ev.Task.Known, c.want, c.told)
		}
		if cred := ev.Task.Cred; c.told.Has(engine.FieldUIDs) && (cred.UID != c.cred.UID || cred.EUID != c.cred.EUID) ||
			c.told.Has(engine.FieldGIDs) && (cred.GID != c.cred.GID || cred.EGID != c.cred.EGID) {
			t.Errorf("%s: %+v, want %+v", c.name, cred, c.cred)
		}
	}
}

// A change after two execs takes away what was read of the first after the second.
func TestChangeAfterSecondExec(t *testing.T) {
	for _, late := range []bool{true, false} {
		e := newEnricher(&fakeProc{memory: 7, known: procfs.Readable}, newClock(), new(loss), ms)
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

// TestExecAfterReading lets an exec follow another one that was read.
func TestExecAfterReading(t *testing.T) {
	for _, c := range []struct {
		name   string
		memory uint64 // that the next one is read in
		after  bool   // its message is of after the first reading
		want   bool   // the image stays known
	}{
		{"another image", 8, true, true},
		{"the next one's image", 7, true, false},
		{"the next one's message is of before the reading", 8, false, false},
		{"nothing is seen of the next", 0, true, false},
	} {
		proc := &fakeProc{memory: 7, known: procfs.Readable}
		e := newEnricher(proc, newClock(), new(loss), 1000*ms)
		first := queue(e, engine.KindExec, clock.Monotonic())
		e.readAll()
		m := message{what: Exec, pid: 1, tid: 1, time: first.Time}
		if c.after {
			m.time = e.at(0).time + 1
		}
		e.note(&m)
		proc.memory = c.memory
		queue(e, engine.KindExec, m.time)
		e.readAll()
		if got := first.Task.Known.Has(engine.FieldFilename); got != c.want {
			t.Errorf("%s: the image is known: %v", c.name, got)
		}
		if !first.Task.Known.Has(engine.FieldCwd) {
			t.Errorf("%s: what an exec does not change is unknown", c.name)
		}
	}
}

// The image of an exec is carried if another one followed that was not read in another memory, as
// at an orderly end: the process can have waited for any time between that image and its message.
func TestExecLongAfterReading(t *testing.T) {
	for _, c := range []struct {
		name    string
		memory  uint64 // that the next one is read in, 0 if it is not
		carried engine.Fields
	}{
		{"another image", 8, 0},
		{"it is not read", 0, engine.FieldComm.Set()},
	} {
		proc := &fakeProc{memory: 7, known: procfs.Readable}
		e := newEnricher(proc, newClock(), new(loss), 1)
		first, to := queue(e, engine.KindExec, clock.Monotonic()), &sink{room: 9}
		e.readAll()
		h := e.at(0)
		proc.state = 'S' // in that memory
		e.release(to, h.time+1, false)
		m := message{what: Exec, pid: 1, tid: 1, time: h.time + 1000}
		e.note(&m)
		if proc.memory = c.memory; c.memory != 0 {
			queue(e, engine.KindExec, m.time)
			e.readAll()
		}
		e.release(to, clock.Monotonic(), false)
		if got := first.Task.Carried & engine.FieldComm.Set(); got != c.carried || !first.Task.Known.Has(engine.FieldComm) {
			t.Errorf("%s: carried %v, known %v", c.name, got, first.Task.Known)
		}
	}
}

// A fork whose reading ended in the image of its birth keeps it when an exec follows.
func TestExecAfterFork(t *testing.T) {
	e := newEnricher(&fakeProc{memory: 7, known: procfs.Readable, noExec: true}, newClock(), new(loss), ms)
	fork := queue(e, engine.KindFork, clock.Monotonic())
	e.readAll()
	e.note(&message{what: Exec, pid: 1, tid: 1, time: fork.Time + 1})
	if !fork.Task.Known.Has(engine.FieldFilename) {
		t.Error("the image is unknown")
	}
	if e.at(0).doubt != 0 {
		t.Errorf("%s is in doubt, though the child has told of all before its exec", e.at(0).doubt)
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
		proc := &fakeProc{memory: 7, known: procfs.Readable, noExec: c.kind == engine.KindFork, cgroup: c.cgroup, ran: c.ran}
		e := newEnricher(proc, newClock(), new(loss), ms)
		ev := queue(e, c.kind, clock.Monotonic())
		e.readAll()
		if got := ev.Task.Known.Has(engine.FieldCgroup); got != c.known {
			t.Errorf("%+v: known %v", c, got)
		}
	}
}

// The next process of a number takes nothing from one that was read and is certainly older.
func TestNextProcessOfTheNumber(t *testing.T) {
	const tick = engine.ProcStartUnit
	for _, c := range []struct {
		name  string
		start uint64 // how many ticks older than the next the process is that was read
		known bool
	}{{"older", 1, true}, {"of the same tick", 0, false}, {"of unknown age", 1 << 40, false}} {
		e := newEnricher(&fakeProc{memory: 7, known: procfs.Readable}, newClock(), new(loss), ms)
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

// After a loss nothing is known from /proc of events before it.
func TestLossTakesReadings(t *testing.T) {
	e := newEnricher(&fakeProc{memory: 7, known: procfs.Readable}, newClock(), new(loss), ms)
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

// What would have told whether an end is one can be lost: the end is in the gap then.
func TestLossAfterUnsureEnd(t *testing.T) {
	e := newEnricher(&fakeProc{}, newClock(), new(loss), ms)
	now := clock.Monotonic()
	e.addEnd(&engine.RawEvent{Kind: engine.KindExit, PID: 1, TID: 1, Time: now}, engine.FieldExit.Set(), &fact{unsure: true, lost: span{now, now}})
	g := engine.Gap{From: now + 1, To: now + 2, Count: 7}
	e.distrust(&g)
	if g.From != now || g.Count != 8 {
		t.Errorf("%+v", g)
	}
	to := &sink{room: 9}
	e.release(to, clock.Monotonic(), true)
	e.addEnd(&engine.RawEvent{Kind: engine.KindExit, PID: 1, TID: 1, Time: g.To}, 0, &fact{unsure: true, lost: span{g.To, g.To}})
	e.release(to, clock.Monotonic(), true)
	if len(to.events) != 1 || to.events[0].Kind != engine.KindGap {
		t.Errorf("%d events", len(to.events))
	}
	if e.loss.void != 2 || len(e.byPID.In) != 0 {
		t.Errorf("%d are lost, %v is left", e.loss.void, e.byPID.In)
	}
}

// Ids that were read before an exec may be those of the thread that executes.
func TestIDsBeforeExecOfThread(t *testing.T) {
	for _, kind := range []engine.Kind{engine.KindFork, engine.KindExec, engine.KindIDChange} {
		for _, threads := range []bool{true, false} {
			e := newEnricher(&fakeProc{memory: 7, known: procfs.Readable, noExec: true}, newClock(), new(loss), ms)
			ev := queue(e, kind, clock.Monotonic())
			e.readAll()
			e.note(&message{what: Exec, pid: 1, tid: 1, time: clock.Monotonic(), threads: threads})
			want := engine.FieldsIDs
			if threads {
				want = 0
			}
			if got := ev.Task.Known & engine.FieldsIDs; got != want {
				t.Errorf("%v, other threads %v: %v is known", kind, threads, got)
			}
		}
	}
}

// Ids that may be another thread's are carried, unless they were read after the event.
func TestIDsThatMayBeOfAThread(t *testing.T) {
	for _, read := range []bool{true, false} {
		e := newEnricher(&fakeProc{memory: 7, state: 'S', known: procfs.Readable}, newClock(), new(loss), ms)
		ev := &engine.RawEvent{Kind: engine.KindExec, PID: 1, TID: 1, Time: clock.Monotonic()}
		ev.Task.Carried = engine.FieldsIDs
		e.add(ev, procfs.Readable)
		e.readAll()
		if !read {
			e.note(&message{what: UID, pid: 1, tid: 1, real: 7, eff: 8, time: clock.Monotonic()})
		}
		e.release(&sink{room: 9}, clock.Monotonic()+ms, true)
		want := engine.Fields(0)
		if !read {
			want = engine.SetOf(engine.FieldUIDs, engine.FieldSUID)
		}
		if got := ev.Task.Carried & engine.FieldsIDs; got != want || ev.Task.Known&engine.FieldsIDs != engine.FieldsIDs&^want {
			t.Errorf("read and not doubted %v: carried %v, known %v", read, got, ev.Task.Known)
		}
	}
}

// The comm that was read of a process that a signal ends may be of an exec that failed.
func TestCommBeforeSignal(t *testing.T) {
	for _, c := range []struct {
		name string
		m    message
		want engine.Fields
	}{
		{"signal", message{what: Exit, status: 11}, engine.FieldComm.Set()},
		{"core", message{what: CoreDump}, engine.FieldComm.Set()},
		{"code", message{what: Exit, status: 3 << 8}, 0},
	} {
		e := newEnricher(&fakeProc{memory: 7, known: procfs.Readable}, newClock(), new(loss), ms)
		ev := queue(e, engine.KindExec, clock.Monotonic())
		e.readAll()
		c.m.pid, c.m.tid, c.m.time = 1, 1, clock.Monotonic()
		e.note(&c.m)
		e.release(&sink{room: 9}, clock.Monotonic()+ms, true)
		if got := ev.Task.Carried & engine.FieldComm.Set(); got != c.want || !ev.Task.Known.Has(engine.FieldComm) {
			t.Errorf("%s: carried %v, known %v", c.name, got, ev.Task.Known)
		}
	}
}

// What is handed over before the doubt time is over, as the sink has no room or as it is the end,
// is handed over without what was read.
func TestReadingInFullSink(t *testing.T) {
	for _, room := range []int{1, 100} {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		s := offline(Options{Enrich: EnrichNone})
		s.fd, s.pace, s.finishing = fds[0], &pace.Pacer{}, room == 100
		proc := &fakeProc{memory: 7, known: procfs.Readable}
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
	e := newEnricher(&fakeProc{memory: 7, known: procfs.Readable}, newClock(), new(loss), ms)
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

// A change is in /proc before its message is made, and a thread can lose its CPU in between: image
// and ids at an exec or a change of ids, and comm and ids at a fork, are carried unless something
// shows that none is under way.
func TestChangeUnderWay(t *testing.T) {
	const comm, ids, sleeps = 1 << engine.FieldComm, engine.FieldsIDs, 'S'
	for _, c := range []struct {
		name    string
		first   fakeProc
		second  fakeProc
		m       message // of after the reading
		carried engine.Fields
	}{
		{"runs", fakeProc{memory: 7}, fakeProc{memory: 7}, message{}, comm | ids},
		{"slept", fakeProc{memory: 7, state: sleeps}, fakeProc{}, message{}, 0},
		{"sleeps", fakeProc{memory: 7}, fakeProc{memory: 7, state: sleeps}, message{}, 0},
		{"sleeps in another image", fakeProc{memory: 7}, fakeProc{memory: 8, state: sleeps}, message{}, comm},
		{"was in an exec, as it is", fakeProc{}, fakeProc{}, message{}, comm | ids},
		{"was in an exec, which is complete", fakeProc{}, fakeProc{memory: 8, state: sleeps}, message{}, comm},
		{"waits in an exec", fakeProc{state: sleeps}, fakeProc{state: sleeps}, message{}, comm},
		{"had ended", fakeProc{state: 'Z'}, fakeProc{state: 'Z'}, message{}, comm},
		{"has ended", fakeProc{memory: 7}, fakeProc{}, message{what: Exit}, 0},
		{"a thread has ended", fakeProc{memory: 7}, fakeProc{}, message{what: Exit, tid: 2}, comm | ids},
		{"has changed its ids, perhaps in an exec", fakeProc{memory: 7}, fakeProc{}, message{what: GID}, comm | ids},
		{"has made a session", fakeProc{memory: 7}, fakeProc{}, message{what: SID}, 0},
		{"had made a session before the reading", fakeProc{memory: 7}, fakeProc{}, message{what: SID, time: 1}, comm | ids},
	} {
		for _, kind := range []engine.Kind{engine.KindExec, engine.KindIDChange, engine.KindFork} {
			proc := c.first
			proc.known, proc.noExec = procfs.Readable, kind == engine.KindFork
			e := newEnricher(&proc, newClock(), new(loss), 1)
			ev := queue(e, kind, clock.Monotonic())
			e.readAll()
			if m := c.m; m.what != 0 {
				m.pid, m.tid, m.time = 1, max(m.tid, 1), cmp.Or(m.time, clock.Monotonic())
				e.note(&m)
			}
			proc = c.second
			to := &sink{room: 9}
			e.release(to, e.at(0).time+1, false)
			if looked := e.at(0).again; looked != 0 {
				if len(to.events) != 0 {
					t.Errorf("%s, %v: released before what was sent until the second look was noted", c.name, kind)
				}
				e.release(to, looked, false)
			}
			if got := ev.Task.Carried & (comm | ids); got != c.carried || ev.Task.Known&got != got || len(to.events) != 1 {
				t.Errorf("%s, %v: carried %v, known %v, %d events", c.name, kind, got, ev.Task.Known, len(to.events))
			}
		}
	}
}

// A message of user ids may be half of a change of both: the group ids are carried if one of those
// follows, or if nothing shows that none does.
func TestGroupIDsOfUID(t *testing.T) {
	const none = What(0)
	for _, c := range []struct {
		name    string
		next    What
		lost    bool // a message before the next one
		early   bool // the event is taken before the doubt time is over
		carried bool
		shown   bool // and not if it is read in a memory
	}{
		{"nothing follows", none, false, false, true, true},
		{"nothing has followed yet", none, false, true, true, false},
		{"group ids follow", GID, false, false, true, false},
		{"an exec follows", Exec, false, true, false, false},
		{"other user ids follow", UID, false, true, false, false},
		{"the end follows", Exit, false, true, false, false},
		{"a tracer attaches", Ptrace, false, true, true, false},
		{"a message is lost before the exec", Exec, true, false, true, false},
	} {
		for _, proc := range []*fakeProc{nil, {known: procfs.Readable}, {memory: 7, known: procfs.Readable}} {
			s := offline(Options{Enrich: EnrichNone})
			if proc != nil {
				s = offline(Options{Enrich: EnrichFull})
				s.enrich = newEnricher(proc, s.clock, &s.loss, ms)
			}
			to := &sink{room: 9}
			s.to = to
			now := clock.Monotonic()
			s.message(record(UID, 0, 1, now, 5, 5, 1000, 1001), true)
			s.enrich.readAll()
			if c.next != none {
				seq := uint32(2)
				if c.lost {
					seq = 3
				}
				s.message(record(c.next, 0, seq, now+1, 5, 5, 0, 0, 1, 1), true)
				if c.next == GID {
					s.message(record(Exec, 0, 3, now+2, 5, 5), true)
				}
			}
			if !c.early {
				s.loss.noted = clock.Monotonic() + uint64(s.opts.DoubtTime)
			}
			s.enrich.release(to, s.loss.noted, c.early)
			s.enrich.release(to, clock.Monotonic(), true) // what waited for a look
			want := c.carried && !(c.shown && proc != nil && proc.memory != 0)
			ev := to.events.Of(5, engine.KindIDChange)[0]
			if got := ev.Task.Carried & ofGroup; got != 0 != want || ev.Task.Known&ofGroup != 0 {
				t.Errorf("%s, %+v: carries %v, knows %v", c.name, proc, got, ev.Task.Known)
			}
		}
	}
}
