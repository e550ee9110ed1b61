package cnproc

import (
	"slices"
	"testing"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
)

// A number is another process's before the exit message of the first has come.
func TestExitAfterTheNextFork(t *testing.T) {
	fork := func(seq uint32, time uint64) []byte { return record(Fork, 0, seq, time, 1, 1, 10, 10) }
	exit := func(seq uint32, time uint64, status uint32) []byte {
		return record(Exit, 0, seq, time, 10, 10, status, 17, 1, 1)
	}
	late := func(seq uint32, time uint64, status uint32) []byte {
		return record(Exit, 0, seq, time, 10, 10, status, 17, 0, 0)
	}
	type want struct {
		kind   engine.Kind
		time   uint64
		status int32
	}
	for _, c := range []struct {
		name     string
		messages [][]byte
		want     []want
		gone     bool
	}{
		{"in order", [][]byte{fork(1, 100), exit(2, 150, 11), fork(3, 200), exit(4, 250, 12)},
			[]want{{engine.KindFork, 100, 0}, {engine.KindExit, 150, 11}, {engine.KindFork, 200, 0}, {engine.KindExit, 250, 12}}, false},
		{"the first's exit after the second's birth", [][]byte{fork(1, 100), fork(2, 200), late(3, 210, 11), exit(4, 250, 12)},
			[]want{{engine.KindFork, 100, 0}, {engine.KindExit, 199, 0}, {engine.KindFork, 200, 0}, {engine.KindExit, 250, 12}}, false},
		{"the first's exit was stamped before the second's birth", [][]byte{fork(1, 100), fork(2, 200), exit(3, 190, 11), exit(4, 250, 12)},
			[]want{{engine.KindFork, 100, 0}, {engine.KindExit, 190, 11}, {engine.KindFork, 200, 0}, {engine.KindExit, 250, 12}}, false},
		{"the second's exit comes first", [][]byte{fork(1, 100), fork(2, 200), exit(3, 250, 12), late(4, 260, 11)},
			[]want{{engine.KindFork, 100, 0}, {engine.KindExit, 199, 0}, {engine.KindFork, 200, 0}, {engine.KindExit, 250, 12}}, false},
		{"two at once", [][]byte{fork(1, 100), fork(2, 200), fork(3, 300), late(4, 310, 11), late(5, 320, 12), exit(6, 350, 13)},
			[]want{{engine.KindFork, 100, 0}, {engine.KindExit, 199, 0}, {engine.KindFork, 200, 0}, {engine.KindExit, 299, 0},
				{engine.KindFork, 300, 0}, {engine.KindExit, 350, 13}}, false},
		{"the first's exit is lost", [][]byte{fork(1, 100), fork(3, 200), exit(4, 250, 12)},
			[]want{{engine.KindFork, 100, 0}, {engine.KindFork, 200, 0}, {engine.KindExit, 250, 12}}, true},
		{"the first's birth was not seen", [][]byte{fork(1, 200), exit(2, 250, 12)},
			[]want{{engine.KindFork, 200, 0}, {engine.KindExit, 250, 12}}, false},
	} {
		s := offline(Options{Enrich: EnrichNone})
		if !c.gone {
			s.track.view = alone{} // the latest process runs
		}
		to := &sink{room: 100}
		feed(s, to, c.messages...)
		slices.SortStableFunc(to.events, func(x, y *engine.RawEvent) int { return int(x.Time) - int(y.Time) })
		var got []want
		for _, ev := range to.events {
			if ev.Kind == engine.KindGap {
				continue
			}
			got = append(got, want{ev.Kind, ev.Time, ev.Task.Exit.WaitStatus})
			if ev.Task.Known.Has(engine.FieldExit) && ev.Task.Exit.Time != ev.Time {
				t.Errorf("%s: exit at %d in an event at %d", c.name, ev.Task.Exit.Time, ev.Time)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
		if len(s.track.owed.In) > 0 {
			t.Errorf("%s: waits for %v", c.name, s.track.owed.In)
		}
	}
}

// So can its threads' messages: a process has ended when its number is reused.
func TestThreadExitAfterTheNextFork(t *testing.T) {
	for _, c := range []struct {
		name          string
		before, after []string
		unseen        bool
		ends          int // of the process
	}{
		{"a thread is late", []string{"+11", "-10=0"}, []string{"-11=0"}, false, 1},
		{"the leader is late, too", []string{"+11"}, []string{"!10=0", "-11=0"}, false, 1},
		{"after a loss", []string{"+11", "-10=0"}, []string{"-11=0"}, true, 1},
	} {
		s := offline(Options{Enrich: EnrichNone}, source.Options{Threads: true})
		got := sink{room: 100}
		next := ms + 1000*uint64(len(c.before)) + 500
		fork := func(s *Source) { s.message(record(Fork, 1, 1, next, 1, 1, 10, 10), true) }
		s.message(record(Fork, 0, 0, ms/2, 1, 1, 10, 10), true)
		all := script(append(slices.Clone(c.before), c.after...)...)
		play(s, &got, all[:len(c.before)]...)
		if g := s.track.groups.byPID.In[10]; c.unseen {
			g.unseen = true
			s.track.groups.byPID.Put(10, g)
		}
		play(s, &got, append([]func(*Source){fork}, all[len(c.before):]...)...)
		ends := 0
		for _, ev := range got.events.Of(10, engine.KindExit) {
			if !ev.Thread {
				ends++
			}
			if ev.Time >= next || !ev.Thread && ev.Task.Known.Has(engine.FieldExit) {
				t.Errorf("%s: EXIT of %d at %d, known %v", c.name, ev.TID, ev.Time, ev.Task.Known)
			}
		}
		if n := len(got.events.Of(10, engine.KindExit)); ends != c.ends || n != 3 && !(n == 2 && c.name == "the leader is late, too") {
			t.Errorf("%s: %d ends, of the process %d", c.name, n, ends)
		}
	}
}

// The next process can end before the messages of the former one come, which was reaped: its end is
// not taken for the former leader's.
func TestEndBeforeThatOfTheFormerLeader(t *testing.T) {
	s := offline(Options{Enrich: EnrichNone}, source.Options{Threads: true})
	got := sink{room: 100}
	next := uint64(ms + 1500)
	fork := func(s *Source) { s.message(record(Fork, 1, 1, next, 1, 1, 10, 10), true) }
	s.message(record(Fork, 0, 0, ms/2, 1, 1, 10, 10), true)
	all := script("+11", "-10=768", "!10=0", "-11=0")
	play(s, &got, all[0], fork, all[1], all[2], all[3])
	status := map[bool]int{} // ends of processes, by whether they are after the fork
	for _, ev := range got.events.Of(10, engine.KindExit) {
		if ev.Thread {
			continue
		}
		status[ev.Time > next]++
		if ev.Time > next && (!ev.Task.Known.Has(engine.FieldExit) || ev.Task.Exit.WaitStatus != 768) {
			t.Errorf("the next one's EXIT: known %v, %+v", ev.Task.Known, ev.Task.Exit)
		}
	}
	if status[true] != 1 || status[false] != 1 {
		t.Errorf("ends after and before the fork: %v", status)
	}
}
