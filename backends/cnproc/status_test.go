package cnproc

import (
	"slices"
	"testing"

	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/clock"
)

// oneThread is a view of a process whose leader has exited. Its other thread has the given state.
type oneThread struct{ state byte }

func (oneThread) PIDs() ([]uint32, error)   { return nil, nil }
func (oneThread) Tasks(pid uint32) []uint32 { return []uint32{pid, pid + 1} }
func (oneThread) Status(uint32) (procfs.Status, uint64, error) {
	return procfs.Status{State: 'Z', Threads: 2}, 0, nil
}

func (v oneThread) ThreadStatus(uint32, uint32) (procfs.Status, uint64, error) {
	return procfs.Status{State: v.state, Threads: 2}, 0, nil
}

// On kernels where a core dump sets the status of other processes too, the status of a process that
// ends meanwhile is unknown.
func TestStatusWhileAnotherDumps(t *testing.T) {
	for _, spreads := range []bool{true, false} {
		s := offline(Options{Enrich: source.EnrichNone})
		s.track.dumps.spread = spreads
		got := sink{room: 100}
		for pid := range uint32(4) {
			feed(s, &got, record(Fork, 1, 1+pid, 900*ms, 1, 1, 10+pid, 10+pid))
		}
		feed(s, &got, record(CoreDump, 0, 1, 1000*ms, 10, 10, 1, 1))
		feed(s, &got, record(Exit, 0, 2, 1001*ms, 11, 11, 256, 17, 10, 10))
		feed(s, &got, record(Exit, 0, 3, 1002*ms, 10, 10, 139, 17, 1, 1))
		feed(s, &got, record(Exit, 0, 4, 1003*ms, 12, 12, 256, 17, 1, 1))
		feed(s, &got, record(Exit, 0, 5, 1003*ms+maxStraggle, 13, 13, 256, 17, 1, 1))
		for pid, want := range map[int]bool{11: !spreads, 10: true, 12: !spreads, 13: true} {
			exits := got.events.Of(pid, engine.KindExit)
			if len(exits) != 1 || exits[0].Task.Known.Has(engine.FieldExit) != want {
				t.Errorf("spreads %v: got %d exits of %d, want known %v", spreads, len(exits), pid, want)
			}
		}
	}
}

// Before Linux 5.16 a core dump by seccomp has no message. The status shows the dump after
// KILL_PROCESS. After KILL_THREAD the status is unknown.
func TestStatusAfterSeccompDumps(t *testing.T) {
	for _, spreads := range []bool{true, false} {
		s := offline(Options{Enrich: source.EnrichNone})
		s.track.dumps.spread = spreads
		got := sink{room: 100}
		for pid := range uint32(3) {
			feed(s, &got, record(Fork, 1, 1+pid, 900*ms, 1, 1, 10+pid, 10+pid))
		}
		feed(s, &got, record(Exit, 0, 1, 1000*ms, 10, 10, 159, 17, 1, 1))
		feed(s, &got, record(Exit, 0, 2, 1001*ms, 11, 11, 31, 17, 1, 1))
		feed(s, &got, record(Fork, 0, 3, 1002*ms, 12, 12, 13, 12))
		feed(s, &got, record(Exit, 0, 4, 1003*ms, 13, 12, 159, 17, 1, 1))
		feed(s, &got, record(Exit, 0, 5, 1004*ms, 12, 12, 31, 17, 1, 1))
		for pid, want := range map[int]struct {
			status int32 // -1: unknown
			dumper uint32
		}{10: {159, 10}, 11: {-1, 0}, 12: {159, 13}} {
			if !spreads && want.status < 0 {
				want.status = 31
			}
			exits, dumps := got.events.Of(pid, engine.KindExit), got.events.Of(pid, engine.KindCoreDump)
			if len(exits) != 1 || exits[0].Task.Known.Has(engine.FieldExit) != (want.status >= 0) || want.status >= 0 && exits[0].Task.Exit.WaitStatus != want.status {
				t.Errorf("spreads %v: exits of %d: got %+v, want one with status %d", spreads, pid, exits, want.status)
			}
			if (len(dumps) == 1) != (want.dumper != 0) || len(dumps) == 1 && dumps[0].TID != want.dumper {
				t.Errorf("spreads %v: core dumps of %d: got %+v, want %d", spreads, pid, dumps, want.dumper)
			}
		}
	}
}

// A running thread may have started to exit before the leader, even if several reads find it
// running. A sleeping thread has not.
func TestStatusWithRunningThread(t *testing.T) {
	for state, known := range map[byte]bool{'R': false, 't': false, 'D': false, 'S': true} {
		var end fact
		tr := &tracker{state: func(f *fact) { end = *f }, view: oneThread{state}, clock: &bootClock{now: clock.Monotonic}, loss: new(loss)}
		tr.last6 = true
		tr.take(&message{what: Fork, pid: 10, tid: 10, time: ms})
		tr.take(&message{what: Fork, pid: 10, tid: 11, time: ms})
		tr.take(&message{what: Exit, pid: 10, tid: 10, status: 2 << 8, time: clock.Monotonic()})
		for range 3 {
			tr.idle()
		}
		tr.take(&message{what: Exit, pid: 10, tid: 11, status: 1 << 8, time: clock.Monotonic()})
		if end.thread || end.kind != engine.KindExit || end.known != known {
			t.Errorf("state %c: got %+v, want known status: %v", state, end, known)
		}
	}
}

// alone is a view of a running process with one thread.
type alone struct{ oneThread }

func (alone) PIDs() ([]uint32, error) { return []uint32{10}, nil }
func (alone) Status(uint32) (procfs.Status, uint64, error) {
	return procfs.Status{State: 'R', Threads: 1}, 0, nil
}

// An EXIT of a process that started before a loss, or before Open without /proc, is reported once
// and without a status. If /proc shows a running thread, the process has not ended.
func TestExitOfUnknownProcess(t *testing.T) {
	for _, c := range []struct {
		view  view
		steps []string
		ends  int
	}{
		{nil, []string{"-11=0", "-10=0", "-12=0"}, 1},
		{oneThread{'R'}, []string{"-10=0"}, 0},
		{alone{}, []string{"-10=0", "-11=0"}, 0}, // another thread has become the leader
	} {
		s := offline(Options{Enrich: source.EnrichNone})
		if s.track.view = c.view; c.view != nil {
			s.track.lose(engine.Gap{CPU: engine.AllCPUs})
		}
		got := sink{room: 100}
		play(s, &got, script(c.steps...)[1:]...)
		if exits := got.events.Of(10, engine.KindExit); len(exits) != c.ends || c.ends > 0 && exits[0].Task.Known.Has(engine.FieldExit) {
			t.Errorf("%v: got %d exits", c.steps, len(exits))
		}
	}
}

// The exit message of a process can arrive after the fork of the next process with its pid.
func TestExitMessageAfterReuse(t *testing.T) {
	fork := func(seq uint32, time uint64) []byte { return record(Fork, 0, seq, time, 1, 1, 10, 10) }
	exit := func(seq uint32, time uint64, status, parent uint32) []byte {
		return record(Exit, 0, seq, time, 10, 10, status, 17, parent, parent)
	}
	type want struct {
		time   uint64
		status int32 // -1 means unknown
	}
	for _, c := range []struct {
		name     string
		runs     bool // whether the latest process still runs
		messages [][]byte
		want     []want
	}{
		{"in order", true, [][]byte{fork(1, 100), exit(2, 150, 11, 1), fork(3, 200), exit(4, 250, 12, 1)}, []want{{150, 11}, {250, 12}}},
		{"late", true, [][]byte{fork(1, 100), fork(2, 200), exit(3, 210, 11, 0), exit(4, 250, 12, 1)}, []want{{199, -1}, {250, 12}}},
		{"of before the fork", true, [][]byte{fork(1, 100), fork(2, 200), exit(3, 190, 11, 1), exit(4, 250, 12, 1)}, []want{{199, -1}, {250, 12}}},
		{"the second's first", true, [][]byte{fork(1, 100), fork(2, 200), exit(3, 250, 12, 1), exit(4, 260, 11, 0)}, []want{{199, -1}, {250, 12}}},
		{"both at once", false, [][]byte{fork(1, 100), fork(2, 200), exit(3, 250, 12, 0), exit(4, 260, 11, 0)}, []want{{199, -1}, {1000, -1}}},
		{"lost", true, [][]byte{fork(1, 100), fork(2, 200), exit(3, 250, 12, 1)}, []want{{199, -1}, {250, 12}}},
	} {
		s := offline(Options{Enrich: source.EnrichNone})
		s.clock.now = func() uint64 { return 1000 }
		if c.runs {
			s.track.view = alone{}
		}
		to := &sink{room: 100}
		feed(s, to, c.messages...)
		var got []want
		for _, ev := range to.events.Of(10, engine.KindExit) {
			w := want{ev.Time, ev.Task.Exit.WaitStatus}
			if !ev.Task.Known.Has(engine.FieldExit) {
				w.status = -1
			}
			got = append(got, w)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}
