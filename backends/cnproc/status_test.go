package cnproc

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/clock"
)

// TestVerdictIsTrue ends thread groups in random ways, with messages in any order, and compares
// each certain status with the one that the kernel would give.
func TestVerdictIsTrue(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	known := 0
	for range 20000 {
		last6, threads := rnd.IntN(2) == 0, 1+rnd.IntN(4)
		g := groups{last6: last6}
		for i := range threads {
			g.add(10, uint32(11+i))
		}
		// Threads begin to end in a random order, and send their messages any time later.
		// From some point on, perhaps, the whole group is made to end.
		order := rnd.Perm(threads + 1) // 0 is the leader
		groupFrom, groupStatus := rnd.IntN(2*threads+2), int32(rnd.IntN(3))<<8
		var ending []message
		var truth, leader int32
		begun, now := 0, uint64(1)
		var got end
		for !got.group {
			now++
			switch {
			case begun <= threads && rnd.IntN(2) == 0:
				status := int32(rnd.IntN(3)) << 8
				if begun >= groupFrom {
					status = groupStatus
				}
				if order[begun] == 0 {
					leader = status
				}
				truth = status // of the last to begin
				ending = append(ending, message{what: Exit, pid: 10, tid: uint32(10 + order[begun]), status: uint32(status)})
				begun++
			case len(ending) > 0 && rnd.IntN(2) == 0:
				i := rnd.IntN(len(ending))
				m := ending[i]
				ending = append(ending[:i], ending[i+1:]...)
				m.time = now
				got = g.exit(&m)
			case begun <= min(groupFrom, threads) && rnd.IntN(4) == 0:
				g.alive(10, now) // a thread that has not begun to end is seen
			}
			if _, ok := g.byPID.In[10]; !ok && !got.group {
				break // one thread is left: it decides alone
			}
		}
		if !got.group {
			continue
		}
		if !last6 && groupFrom > threads {
			truth = leader
		}
		if got.known {
			if known++; got.status != truth {
				t.Fatalf("status %#x, want %#x (6.0: %v, group from %d of %v)", got.status, truth, last6, groupFrom, order)
			}
		}
	}
	if known < 2000 {
		t.Errorf("only %d of 20000 are known", known)
	}
}

// Only the thread that dumps core ends with the core bit, in whatever order the messages come.
func TestCoreBitOfTheGroup(t *testing.T) {
	const segv = 11
	for dumper := range uint32(3) {
		for first := range uint32(3) {
			g := groups{last6: true}
			g.add(10, 11)
			g.add(10, 12)
			var got end
			for i := range uint32(3) {
				tid := 10 + (first+i)%3
				m := message{what: Exit, pid: 10, tid: tid, status: segv, time: uint64(i + 1)}
				if tid == 10+dumper {
					m.status |= 0x80
				}
				got = g.exit(&m)
			}
			if !got.group || !got.known || got.status != segv|0x80 {
				t.Errorf("thread %d dumped, %d ended first: %+v", dumper, first, got)
			}
		}
	}
}

// oneThread is a view of a group with an ended leader and one other thread in the given state.
type oneThread struct{ state byte }

func (oneThread) PIDs() ([]uint32, error)   { return nil, nil }
func (oneThread) Tasks(pid uint32) []uint32 { return []uint32{pid, pid + 1} }
func (oneThread) Status(uint32) (procfs.Status, uint64, error) {
	return procfs.Status{State: 'Z', Threads: 2}, 0, nil
}

func (v oneThread) ThreadStatus(uint32, uint32) (procfs.Status, uint64, error) {
	return procfs.Status{State: v.state, Threads: 2}, 0, nil
}

// goes is a view of such a group, which is gone at the second look.
type goes struct {
	oneThread
	looks *int
}

func (v goes) Status(pid uint32) (procfs.Status, uint64, error) {
	if *v.looks++; *v.looks > 1 {
		return procfs.Status{}, 0, procfs.ErrVanished
	}
	return v.oneThread.Status(pid)
}

// After a loss a former leader's message is not the end of its process, even if that is gone when
// /proc is looked at.
func TestFormerLeaderAfterLoss(t *testing.T) {
	for _, c := range []struct {
		steps []string
		kinds []engine.Kind
	}{
		{[]string{"-10=9"}, []engine.Kind{engine.KindExit}}, // the rest was lost
		{[]string{"-10=9", "x", "-10=512"}, []engine.Kind{engine.KindExit, engine.KindExec}},
		{[]string{"-11=9", "x", "-10=512"}, []engine.Kind{engine.KindExit, engine.KindExec}},
		{[]string{"-10=9", "-10=512"}, []engine.Kind{engine.KindExit, engine.KindGap}},
	} {
		var got sink
		s := offline(Options{})
		v := goes{oneThread{'R'}, new(int)}
		s.track = newTracker(v, s.clock, &s.loss, true, s.take)
		s.enrich.doubt = 1 << 60
		s.to = &got
		*v.looks++
		s.loss.rescan = true
		for _, m := range script(c.steps...) {
			m(s)
		}
		s.release(false)
		s.release(true)
		var kinds []engine.Kind
		for _, ev := range got.events {
			if kinds = append(kinds, ev.Kind); ev.Thread {
				kinds = kinds[:len(kinds)-1]
			}
		}
		if !slices.Equal(kinds, c.kinds) {
			t.Errorf("%v: %v, want %v", c.steps, kinds, c.kinds)
		}
	}
}

// The look can show the threads of a process before its birth is reported: it is the same process.
func TestBirthBeforeLook(t *testing.T) {
	s := offline(Options{Enrich: EnrichNone})
	s.track.view = threaded{}
	got := sink{room: 100}
	s.to = &got
	birth := clock.Monotonic()
	s.track.learn()
	feed(s, &got, record(Fork, 1, 1, birth, 1, 1, 10, 10), record(Fork, 1, 2, birth+1, 10, 10, 11, 10))
	if n := len(got.events.Of(10, engine.KindExit)); n != 0 || s.track.groups.byPID.In[10].live != 1 {
		t.Errorf("%d exits, %+v", n, s.track.groups.byPID.In[10])
	}
}

// threaded is a view of a process that sleeps with two threads.
type threaded struct{ oneThread }

func (threaded) PIDs() ([]uint32, error) { return []uint32{10}, nil }
func (threaded) Status(uint32) (procfs.Status, uint64, error) {
	return procfs.Status{State: 'S', Threads: 2}, 0, nil
}

// alone is a view of a process after another thread has replaced the leader.
type alone struct{ oneThread }

func (alone) PIDs() ([]uint32, error) { return []uint32{10}, nil }
func (alone) Status(uint32) (procfs.Status, uint64, error) {
	return procfs.Status{State: 'R', Threads: 1}, 0, nil
}

// The exit message of a leader that was replaced before the look after a loss, and that is taken
// after it, is not the end of the process.
func TestFormerLeaderBeforeLook(t *testing.T) {
	for _, born := range []bool{true, false} { // after the loss
		s := offline(Options{Enrich: EnrichNone})
		s.track.view = alone{}
		got := sink{room: 100}
		s.to = &got
		s.loss.until, s.loss.rescan = 1, true
		if born {
			s.message(record(Fork, 1, 1, ms, 1, 1, 10, 10), true)
		}
		steps := script("+11", "-10=9")
		play(s, &got, steps[0])
		s.track.learn()
		play(s, &got, steps[1])
		if n := len(got.events.Of(10, engine.KindExit)); n != 0 {
			t.Errorf("born after the loss %v: %d exits", born, n)
		}
	}
}

// The end of a leader is reported once: after a loss, a second exit message belongs to a thread
// that has executed. It can have made threads, which /proc shows then.
func TestSecondEndOfLeaderAfterLoss(t *testing.T) {
	for _, gone := range []bool{true, false} {
		s := offline(Options{Enrich: EnrichNone}, source.Options{Threads: true})
		looks := -1
		if gone {
			looks = 0
		}
		s.track.view = goes{oneThread{'S'}, &looks}
		got := sink{room: 100}
		steps := script("+11", "-10=0", "-10=512")
		play(s, &got, steps[:2]...)
		s.track.epoch++
		s.track.learnProcess(10)
		play(s, &got, steps[2])
		exits := got.events.Of(10, engine.KindExit)
		if len(exits) != 2 || !exits[0].Thread || exits[1].Thread == gone {
			t.Errorf("gone %v: %d exits", gone, len(exits))
		}
	}
}

// young is a view of such a process that started in the tick of an exit message.
type young struct{ alone }

func (young) Status(uint32) (procfs.Status, uint64, error) {
	return procfs.Status{State: 'R', Threads: 1}, engine.ProcStartUnit, nil
}

// After a loss, a process that started in the tick of an exit message of its pid can be the one
// that lost that former leader, or the next one.
func TestEndBeforeTheNextOfTheTick(t *testing.T) {
	s := offline(Options{Enrich: EnrichNone}, source.Options{Threads: true})
	s.track.view, s.clock.BootClock = young{}, procfs.BootClock{}
	s.loss.until, s.loss.rescan, s.loss.looked = 1, true, clock.Monotonic()
	got := sink{room: 100}
	const at = engine.ProcStartUnit + 5
	feed(s, &got, record(Exit, 0, 1, at, 10, 10, 0, 17, 2, 1))
	if st, _ := s.Stats(); len(got.events) != 2 || got.events[0].Kind != engine.KindGap || got.events[0].Gap.From != at || !got.events[1].Thread || st.LostTotal() != 1 {
		t.Errorf("%d events, %+v", len(got.events), st)
	}
}

// zombie is a view of a process with only its ended leader left.
type zombie struct{ alone }

func (zombie) Status(uint32) (procfs.Status, uint64, error) {
	return procfs.Status{State: 'Z', Threads: 1}, 0, nil
}

// The message of a leader ends its process if /proc shows that it has ended. A loss may have hidden
// threads: the status can be another's. Later messages report no second end.
func TestLeaderOfUnseenThreads(t *testing.T) {
	for _, lost := range []bool{true, false} { // else the source has only begun to watch
		for _, status := range []string{"0", "9", "15"} {
			s := offline(Options{Enrich: EnrichNone})
			s.track.view = zombie{}
			if s.loss.rescan = true; lost {
				s.loss.until = 1
			}
			got := sink{room: 100}
			play(s, &got, script("-10="+status, "-11=256")...)
			var kinds []engine.Kind
			for _, ev := range got.events {
				kinds = append(kinds, ev.Kind)
			}
			if !slices.Equal(kinds, []engine.Kind{engine.KindExit}) || got.events[0].Task.Known.Has(engine.FieldExit) != (status == "15") {
				t.Errorf("lost %v, status %s: %v, known %v", lost, status, kinds, got.events[0].Task.Known)
			}
		}
	}
}

// Without /proc, or if it shows another process of the tick by then, an end is reported or lost.
func TestLeaderOfUnseenThreadsIsNotForgotten(t *testing.T) {
	for name, v := range map[string]view{"no /proc": nil, "the number is given again": &again{}} {
		s := offline(Options{Enrich: EnrichNone})
		s.track.view = v
		s.loss.until, s.loss.rescan = 1, true
		got := sink{room: 100}
		feed(s, &got, record(Exit, 0, 1, engine.ProcStartUnit+5, 10, 10, 0, 17, 2, 1))
		if st, _ := s.Stats(); uint64(len(got.events.Of(10, engine.KindExit)))+st.LostTotal() != 1 {
			t.Errorf("%s: %d events, %+v", name, len(got.events), st)
		}
	}
}

// again is a view of a process that is gone at the first look, and at the next of another one that
// started in the tick of its end.
type again struct {
	alone
	looks int
}

func (v *again) Status(pid uint32) (procfs.Status, uint64, error) {
	if v.looks++; v.looks == 1 {
		return procfs.Status{}, 0, procfs.ErrVanished
	}
	return young{}.Status(pid)
}

// If a core dump sets the status of other processes, the status of a process that ends meanwhile is
// unknown.
func TestStatusWhileAnotherDumps(t *testing.T) {
	for _, spreads := range []bool{true, false} {
		s := offline(Options{Enrich: EnrichNone})
		s.track.spreads = spreads
		got := sink{room: 100}
		feed(s, &got, record(CoreDump, 0, 1, 1000*ms, 10, 10, 1, 1))
		feed(s, &got, record(Exit, 0, 2, 1001*ms, 11, 11, 256, 17, 10, 10))
		feed(s, &got, record(Exit, 0, 3, 1002*ms, 10, 10, 139, 17, 1, 1))
		feed(s, &got, record(Exit, 0, 4, 1003*ms, 12, 12, 256, 17, 1, 1))
		feed(s, &got, record(Exit, 0, 5, 1003*ms+maxStraggle, 13, 13, 256, 17, 1, 1))
		for pid, want := range map[int]bool{11: !spreads, 10: true, 12: !spreads, 13: true} {
			exits := got.events.Of(pid, engine.KindExit)
			if len(exits) != 1 || exits[0].Task.Known.Has(engine.FieldExit) != want {
				t.Errorf("spreads %v: %d exits of %d, known is to be %v", spreads, len(exits), pid, want)
			}
		}
	}
}

// Before Linux 5.16 seccomp has core dumped without a message. After KILL_PROCESS the status shows
// it, after KILL_THREAD it stays unknown.
func TestStatusAfterSeccompDumps(t *testing.T) {
	for _, spreads := range []bool{true, false} {
		s := offline(Options{Enrich: EnrichNone})
		s.track.spreads = spreads
		got := sink{room: 100}
		feed(s, &got, record(Exit, 0, 1, 1000*ms, 10, 10, 159, 17, 1, 1))
		feed(s, &got, record(Exit, 0, 2, 1001*ms, 11, 11, 31, 17, 1, 1))
		feed(s, &got, record(Fork, 0, 3, 1002*ms, 12, 12, 13, 12))
		feed(s, &got, record(Exit, 0, 4, 1003*ms, 13, 12, 159, 17, 1, 1))
		feed(s, &got, record(Exit, 0, 5, 1004*ms, 12, 12, 31, 17, 1, 1))
		for pid, want := range map[int]struct {
			status int32 // -1: unknown
			dumper uint32
		}{10: {159, 10}, 11: {-1, 0}, 12: {159, 13}} {
			if !spreads {
				if want.dumper = 0; want.status < 0 {
					want.status = 31
				}
			}
			exits, dumps := got.events.Of(pid, engine.KindExit), got.events.Of(pid, engine.KindCoreDump)
			if len(exits) != 1 || exits[0].Task.Known.Has(engine.FieldExit) != (want.status >= 0) || want.status >= 0 && exits[0].Task.Exit.WaitStatus != want.status {
				t.Errorf("spreads %v: exits of %d: %+v, want one with status %d", spreads, pid, exits, want.status)
			}
			if (len(dumps) == 1) != (want.dumper != 0) || len(dumps) == 1 && dumps[0].TID != want.dumper {
				t.Errorf("spreads %v: core dumps of %d: %+v, want %d", spreads, pid, dumps, want.dumper)
			}
		}
	}
}

// A full sink gets the gap of an overrun ahead of the messages that the socket held. These are all
// delivered.
func TestFullSinkBeforeWhatWasHeld(t *testing.T) {
	s := offline(Options{Enrich: EnrichNone})
	s.track.view = oneThread{} // it has no process
	got := sink{room: 100}
	feed(s, &got, record(Fork, 0, 1, ms, 1, 1, 10, 10))
	s.loss.overrun = overrun{from: 1, to: 9 * ms, reported: 9 * ms, counted: 9 * ms, dropped: 4}
	s.loss.congested = true
	s.release(true)
	feed(s, &got, record(Exit, 0, 2, 2*ms, 10, 10, 0, 17, 2, 1))
	lives := s.track.loss.until == 0
	s.tellOverrun()
	gaps, exits := got.events.Of(0, engine.KindGap), got.events.Of(10, engine.KindExit)
	if len(gaps) != 1 || gaps[0].Gap.Count != 4 || len(exits) != 1 || !lives || s.track.loss.until == 0 {
		t.Errorf("%d gaps, %d exits, lives %v, %+v", len(gaps), len(exits), lives, s.loss)
	}
}

// A core dump is reported with the end. If the end may be lost the gap begins where the core may
// have been dumped, which is counted too.
func TestLossAfterCoreMessage(t *testing.T) {
	s := offline(Options{Enrich: EnrichNone})
	got := sink{room: 100}
	core := record(CoreDump, 0, 1, 1000*ms, 10, 10, 1, 1)
	feed(s, &got, record(Fork, 0, 0, 999*ms, 1, 1, 10, 10))
	feed(s, &got, core)
	feed(s, &got, record(Exit, 0, 3, 1002*ms, 10, 10, 134, 17, 2, 1))
	gaps := got.events.Of(0, engine.KindGap)
	if len(gaps) != 1 || gaps[0].Gap.From > 1000*ms || gaps[0].Gap.Count != 2 || s.loss.total() != 2 || len(got.events.Of(10, engine.KindCoreDump)) != 0 {
		t.Errorf("%d gaps, %d lost", len(gaps), s.loss.total())
	}
}

// The parent sends the message of the FORK, which can come after the messages of the child.
func TestCoreBeforeFork(t *testing.T) {
	s := offline(Options{Enrich: EnrichNone})
	got := sink{room: 100}
	feed(s, &got, record(CoreDump, 0, 0, 1000*ms, 10, 10, 1, 1))
	feed(s, &got, record(Fork, 1, 0, 1001*ms, 1, 1, 10, 10))
	feed(s, &got, record(Exit, 0, 1, 1002*ms, 10, 10, 134, 17, 1, 1))
	if cores, exits := got.events.Of(10, engine.KindCoreDump), got.events.Of(10, engine.KindExit); len(cores) != 1 || len(exits) != 1 {
		t.Errorf("%d cores, %d exits", len(cores), len(exits))
	}
}

// amid is a view of such a process that takes its time.
type amid struct {
	alone
	time *uint64
}

func (v amid) PIDs() ([]uint32, error) {
	time.Sleep(time.Millisecond)
	*v.time = clock.Monotonic()
	time.Sleep(time.Millisecond)
	return v.alone.PIDs()
}

// So is one that was made amid the look.
func TestFormerLeaderAmidLook(t *testing.T) {
	s := offline(Options{Enrich: EnrichNone})
	var at uint64
	s.track.view, s.loss.until = amid{time: &at}, 1
	s.track.learn()
	got := sink{room: 100}
	feed(s, &got, record(Exit, 0, 1, at, 10, 10, 0, 17, 2, 1))
	if n := len(got.events.Of(10, engine.KindExit)); n != 0 {
		t.Errorf("%d exits", n)
	}
}

// Messages that the socket held when it reported an overrun are older than the loss: a later look
// at /proc does not describe them.
func TestHeldBeforeLoss(t *testing.T) {
	for _, before := range []bool{true, false} {
		s := offline(Options{Enrich: EnrichNone})
		s.track.view = oneThread{} // it has no process
		got := sink{room: 100}
		steps := script("+11", "-10=0")
		play(s, &got, steps[0])
		s.loss.overrun = overrun{from: 1, to: 2 * ms, reported: 2 * ms, dropped: 1}
		if !before {
			s.loss.overrun.reported = ms
		}
		steps[1](s)
		told, asked := s.loss.overrun.reported == 0, s.track.epoch != 0
		if told == before || asked == before {
			t.Errorf("held before the loss %v: told %v, asked %v", before, told, asked)
		}
	}
}

// leaves is a view of a process with an ended leader and a last thread that leaves amid the look.
type leaves struct {
	oneThread
	left bool
}

func (*leaves) PIDs() ([]uint32, error)     { return []uint32{10}, nil }
func (v *leaves) Tasks(pid uint32) []uint32 { v.left = true; return []uint32{pid} }
func (v *leaves) Status(pid uint32) (procfs.Status, uint64, error) {
	if v.left {
		return procfs.Status{}, 0, procfs.ErrVanished
	}
	return v.oneThread.Status(pid)
}

// A process can leave /proc before its last exit message is sent. After a loss, messages of other
// threads may be missing.
func TestExitAfterLook(t *testing.T) {
	for _, c := range []struct {
		leaves        bool // amid the look, not before
		before, after []string
	}{
		{false, []string{"+11", "-10=0"}, []string{"-11=0"}},
		{false, []string{"+11", "-11=0"}, []string{"-10=0"}},
		{false, []string{"+11", "+12", "-10=0"}, []string{"-12=0"}},
		{false, []string{"+11", "+12", "-10=0"}, []string{"-12=0", "-11=0"}},
		{false, []string{"+11"}, []string{"-10=0"}},
		{true, []string{"+11", "-10=0"}, []string{"-11=0"}},
		{true, []string{"+11"}, []string{"-11=0"}}, // the leader's message was lost
	} {
		s := offline(Options{Enrich: EnrichNone})
		s.track.view = &leaves{left: !c.leaves}
		got := sink{room: 100}
		all := script(append(slices.Clone(c.before), c.after...)...)
		play(s, &got, all[:len(c.before)]...)
		s.track.learn()
		s.track.settled(clock.Monotonic())
		play(s, &got, all[len(c.before):]...)
		exits := got.events.Of(10, engine.KindExit)
		if len(exits) != 1 || exits[0].Task.Known.Has(engine.FieldExit) {
			t.Errorf("%v, a look, %v: %d exits", c.before, c.after, len(exits))
		}
		if len(s.track.groups.byPID.In)+len(s.track.groups.threads.In) != 0 {
			t.Errorf("%v, a look, %v: left behind: %+v", c.before, c.after, s.track.groups)
		}
	}
}

// A leader that runs after a leader's end was reported is a thread that has replaced it: the end of
// another thread does not end the process.
func TestLeaderReplacedBeforeLook(t *testing.T) {
	s := offline(Options{Enrich: EnrichNone})
	s.track.view = threaded{}
	got := sink{room: 100}
	all := script("+11", "-10=9", "-11=0")
	play(s, &got, all[:2]...)
	s.track.learn()
	if play(s, &got, all[2]); len(got.events.Of(10, engine.KindExit)) != 0 {
		t.Error("an EXIT of a process that runs")
	}
}

// A thread that runs can have begun to end before the leader, however often it is seen to
// run. One that sleeps has not.
func TestRunningIsNoProofOfLife(t *testing.T) {
	for state, known := range map[byte]bool{'R': false, 't': false, 'D': false, 'S': true} {
		var end fact
		tr := newTracker(oneThread{state}, new(bootClock), new(loss), true, func(f *fact) { end = *f })
		tr.groups.add(10, 11)
		tr.take(&message{what: Exit, pid: 10, tid: 10, status: 2 << 8, time: clock.Monotonic()})
		for range 3 {
			for i := range tr.probes {
				tr.probes[i].after = 0
			}
			tr.look()
		}
		tr.take(&message{what: Exit, pid: 10, tid: 11, status: 1 << 8, time: clock.Monotonic()})
		if end.thread || end.kind != engine.KindExit || end.known != known {
			t.Errorf("state %c: %+v, want a status that is known: %v", state, end, known)
		}
	}
}
