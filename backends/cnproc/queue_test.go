package cnproc

import (
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/nlsocket"
	"github.com/quark-linux/quark/backends/internal/pace"
	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/clock"
	"github.com/quark-linux/quark/internal/freelist/freelisttest"
)

// fakeProc is a /proc in which all processes look the same.
type fakeProc struct {
	known  engine.Fields
	noExec bool
	cgroup string // "" for an unknown cgroup
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

// The status in /proc replaces the status in the message, if the process is read anyway.
func TestStatusOfZombie(t *testing.T) {
	for want, status := range map[engine.Fields]int32{engine.FieldExit.Set(): 3 << 8, engine.SetOf(engine.FieldExit, engine.FieldStart): 15} {
		e := newQueue(&fakeProc{known: engine.AllFields})
		ev := &engine.RawEvent{Kind: engine.KindExit, PID: 2, TID: 2, Time: clock.Monotonic()}
		ev.Task.Known, ev.Task.Exit.WaitStatus = engine.FieldExit.Set(), 3<<8
		e.add(ev, want)
		e.readAll()
		to := &sink{room: 9}
		if e.release(to); len(to.events) != 1 || ev.Task.Exit.WaitStatus != status {
			t.Errorf("%v: got status %#x, want %#x; %d events", want, ev.Task.Exit.WaitStatus, status, len(to.events))
		}
	}
}

// newQueue returns a queue that reads the given /proc.
func newQueue(p reader) *queue {
	s := offline(Options{})
	s.queue.proc = p
	return s.queue
}

func add(e *queue, kind engine.Kind, time uint64) *engine.RawEvent {
	ev := &engine.RawEvent{Kind: kind, PID: 1, TID: 1, Time: time}
	e.add(ev, procfs.Readable)
	return ev
}

// Fields from /proc are cached, except fields that never change and ids in the message.
func TestCachedFields(t *testing.T) {
	for _, kind := range []engine.Kind{engine.KindFork, engine.KindExec, engine.KindIDChange} {
		e := newQueue(&fakeProc{known: procfs.Readable, noExec: true})
		ev := &engine.RawEvent{Kind: kind, PID: 2, TID: 2, Time: clock.Monotonic()}
		told := engine.FieldUIDs.Set()
		ev.Task.Known, ev.Task.Cred = told, engine.Credentials{UID: 3, EUID: 4}
		e.add(ev, procfs.Readable)
		e.readAll()
		to := &sink{room: 9}
		e.release(to)
		if x := &ev.Task; len(to.events) != 1 || x.Known != procfs.Readable|told || x.Cached != x.Known&^(fixed|told) {
			t.Errorf("%v: got known %v, cached %v, %d events", kind, x.Known, x.Cached, len(to.events))
		}
		if c := ev.Task.Cred; c.UID != 3 || c.EUID != 4 || c.GID != 5 {
			t.Errorf("%v: got wrong ids %+v", kind, c)
		}
	}
}

// A UID message can announce a change of user and group ids. So its event marks the group ids as
// cached.
func TestUIDMessageMarksGroupIDs(t *testing.T) {
	s := offline(Options{Enrich: source.EnrichNone})
	to := &sink{room: 9}
	s.to = to
	s.message(record(UID, 0, 1, clock.Monotonic(), 5, 5, 1000, 1001), true)
	s.release()
	if x := &to.events[0].Task; x.Cached&ofGroup != ofGroup || x.Known&ofGroup != 0 {
		t.Errorf("got cached %v, known %v, want group ids cached and unknown", x.Cached, x.Known)
	}
}

// A message that was sent before /proc was read removes the fields that it changes.
func TestMessageSentBeforeRead(t *testing.T) {
	for _, c := range []struct {
		name string
		m    message
		lost engine.Fields
		late engine.Fields // also lost if the message was sent after /proc was read
	}{
		{"another user", message{what: UID}, ofUser, 0},
		{"another group", message{what: GID}, ofGroup, 0},
		{"another session", message{what: SID}, ofSession, 0},
		{"another comm", message{what: Comm}, engine.FieldComm.Set(), 0},
		{"another image", message{what: Exec}, procfs.Image | 1<<engine.FieldCaps, 0},
		{"another image, perhaps of a thread", message{what: Exec, threads: true}, procfs.Image | 1<<engine.FieldCaps | engine.FieldsIDs, 0},
		{"another process", message{what: Fork}, procfs.Readable, procfs.Readable},
	} {
		for _, after := range []bool{true, false} {
			e := newQueue(&fakeProc{known: procfs.Readable})
			ev := add(e, engine.KindExec, clock.Monotonic())
			e.readAll()
			m, want := c.m, c.late
			m.tid, m.pid, m.time = 1, 1, e.entries[0].time+1
			if !after {
				m.time, want = ev.Time, c.lost
			}
			e.clear(&m)
			if got := procfs.Readable &^ ev.Task.Known; got != want&procfs.Readable {
				t.Errorf("%s, sent after the read: %v: got removed fields %v, want %v", c.name, after, got, want)
			}
			// A change of a thread does not affect the process.
			known := ev.Task.Known
			if m.tid = 2; m.what != SID && m.what != Exec {
				if e.clear(&m); ev.Task.Known != known {
					t.Errorf("%s of a thread: got removed fields %v", c.name, known&^ev.Task.Known)
				}
			}
		}
	}
}

// The cgroup of a new child is unknown if the child may not have run yet: it may not be in its
// cgroup.
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
		e := newQueue(proc)
		ev := add(e, c.kind, clock.Monotonic())
		e.readAll()
		if got := ev.Task.Known.Has(engine.FieldCgroup); got != c.known {
			t.Errorf("%+v: got known %v", c, got)
		}
	}
}

// A fork that reuses a pid removes no fields of a process that is certainly older.
func TestReadBeforePIDReuse(t *testing.T) {
	const tick = engine.ProcStartUnit
	for _, c := range []struct {
		name  string
		start uint64 // age of the process that was read, in ticks before the fork
		known bool
	}{{"older", 1, true}, {"of the same tick", 0, false}, {"of unknown age", 1 << 40, false}} {
		e := newQueue(&fakeProc{known: procfs.Readable})
		ev := add(e, engine.KindExec, clock.Monotonic())
		e.readAll()
		next := clock.Monotonic()
		if ev.Task.Start = 0; c.start < 1<<40 {
			ev.Task.Start = e.clock.Boot(next) - c.start*tick
		}
		e.clear(&message{what: Fork, pid: 1, tid: 1, time: next})
		if got := ev.Task.Known.Has(engine.FieldCwd); got != c.known {
			t.Errorf("%s: got known %v", c.name, got)
		}
	}
}

// After a loss, earlier events lack the fields from /proc.
func TestFieldsAfterLoss(t *testing.T) {
	e := newQueue(&fakeProc{known: procfs.Readable})
	read := add(e, engine.KindExec, clock.Monotonic())
	e.readAll()
	unread := add(e, engine.KindExec, clock.Monotonic())
	e.distrust(0)
	fresh := add(e, engine.KindExec, clock.Monotonic())
	e.readAll()
	if read.Task.Known|unread.Task.Known != 0 || fresh.Task.Known == 0 {
		t.Errorf("got known fields %v and %v before the loss, %v after it", read.Task.Known, unread.Task.Known, fresh.Task.Known)
	}
}

// The end of a process without a parent precedes the next process with its pid, even if its stamp
// is later than the next fork.
func TestEndBeforeNextProcess(t *testing.T) {
	s := offline(Options{Enrich: source.EnrichNone})
	to := &sink{room: 9}
	feed(s, to, record(Fork, 0, 1, 10, 1, 1, 10, 10))
	s.message(record(Exit, 0, 2, 30, 10, 10, 5, 17, 0, 0), true)
	s.message(record(Fork, 1, 1, 20, 1, 1, 10, 10), true)
	s.release()
	if ev := to.events.One(t, 10, engine.KindExit); ev.Time != 19 || ev.Task.Exit.Time != 19 {
		t.Errorf("got EXIT at %d, want 19", ev.Time)
	}
}

// If the sink is half full, events lack the fields from /proc. If it is full, an event is delivered
// before the socket is empty. All these events are counted.
func TestFieldsWithFullSink(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { unix.Close(fds[0]); unix.Close(fds[1]) }()
	for _, room := range []int{1, 4, 100} {
		s := offline(Options{})
		s.fd, s.pace, s.queue.proc = fds[0], &pace.Pacer{}, &fakeProc{known: procfs.Readable}
		now := clock.Monotonic()
		fill(s.batch, record(Exec, 0, 1, now, 10, 10), record(UID, 0, 2, now+1, 11, 11, 7, 8))
		to := &sink{room: room}
		if err := s.Populate(to); err != nil {
			t.Fatal(err)
		}
		if full := room < 100; len(to.events) == 0 || (to.events[0].Task.Known == 0) != full || (s.unread != 0) != full {
			t.Errorf("sink of %d: got %d events, known %v, %d unread messages", room, len(to.events), to.events[0].Task.Known, s.unread)
		}
	}
}

// fill adds messages to a batch, like the kernel.
func fill(b *nlsocket.Batch, records ...[]byte) {
	for _, r := range records {
		b.Fill(r)
	}
}

// The queue releases the events in the order in which they were added.
func TestQueueKeepsOrder(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	e := newQueue(&fakeProc{known: procfs.Readable})
	to := &sink{room: 1 << 20}
	var want []*engine.RawEvent
	for range 5000 {
		switch rnd.IntN(4) {
		case 0, 1:
			ev := &engine.RawEvent{Kind: engine.Kind(rnd.IntN(3)), PID: 1 + rnd.Uint32N(9), Time: clock.Monotonic()}
			e.add(ev, engine.Fields(rnd.IntN(2))*procfs.Readable)
			want = append(want, ev)
		case 2:
			e.readAll()
			e.clear(&message{what: Exec, pid: 1 + rnd.Uint32N(9), time: clock.Monotonic()})
		default:
			e.release(to)
		}
	}
	e.release(to)
	if !slices.Equal(to.events, want) || len(e.entries) != 0 || len(e.byPID.In) != 0 {
		t.Fatalf("got %d of %d events, %d still queued, %d processes", len(to.events), len(want), len(e.entries), len(e.byPID.In))
	}
}

// TestForkOfSessionLeader reads a process that has called setsid(2), before the source reads the
// message about it.
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
	e := newQueue(proc)
	for kind, want := range map[engine.Kind]engine.Fields{engine.KindFork: 0, engine.KindExec: ofSession} {
		ev := &engine.RawEvent{Kind: kind, PID: uint32(c.Process.Pid), Time: clock.Monotonic()}
		e.readProcess(&entry{ev: ev, want: ofSession | engine.FieldPPID.Set()})
		if known := ev.Task.Known; known&ofSession != want || !known.Has(engine.FieldPPID) {
			t.Errorf("%v: got known fields %v", kind, known)
		}
	}
}

// TestReleaseAfterBurst checks that the memory for a burst of processes with threads is released.
func TestReleaseAfterBurst(t *testing.T) {
	s := offline(Options{Enrich: source.EnrichNone})
	seq, time := uint32(0), uint64(ms)
	message := func(what What, union ...uint32) []byte {
		seq++
		time++
		return record(what, 0, seq, time, union...)
	}
	freelisttest.Burst(t, s, 2048, func(n uint32) {
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
		s.track.dropRetired(time + 3*maxStraggle)
		s.track.idle()
		s.to = &sink{}
		s.track.trim()
		s.queue.trim()
	})
	if tr := s.track; len(s.queue.byPID.In)+len(tr.threads.In)+len(tr.byPID.In) != 0 {
		t.Errorf("got %d queued processes, %d threads, %d processes after the burst", len(s.queue.byPID.In), len(tr.threads.In), len(tr.byPID.In))
	}
}
