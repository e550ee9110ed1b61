package cnproc

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/groupstatus"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
)

const ms = 1_000_000

// script returns messages about process 10, which is forked first. "+11": thread 11 starts;
// "-11=7": it exits with wait status 7; "x": the process executes; "?": /proc shows the process
// running. An exit message with "~" was made before all others, with "^" comes from a former
// leader, with "!" from a process that was reaped before.
func script(steps ...string) (messages []func(*Source)) {
	now, seq := uint64(ms), uint32(0)
	add := func(record []byte) { messages = append(messages, func(s *Source) { s.message(record, true) }) }
	add(record(Fork, 0, 0, ms/2, 1, 1, 10, 10))
	for _, step := range steps {
		tid, status, signal, parent, stamp := uint32(0), uint32(0), uint32(unix.SIGCHLD), uint32(1), now+1000
		seq++
		now += 1000
		switch {
		case step == "?":
			seq--
			time := now
			messages = append(messages, func(s *Source) {
				p := s.track.byPID.In[10]
				p.aliveAt, p.endings = time, groupstatus.Endings{}
				s.track.byPID.Put(10, p)
			})
		case step == "x":
			add(record(Exec, 0, seq, now, 10, 10))
		case step[0] == '+':
			fmt.Sscanf(step, "+%d", &tid)
			add(record(Fork, 0, seq, now, 10, 10, tid, 10))
		default:
			fmt.Sscanf(step[1:], "%d=%d", &tid, &status)
			if step[0] == '^' || tid != 10 {
				signal = ^uint32(0)
			}
			if step[0] == '~' {
				stamp = ms
			}
			if step[0] == '!' {
				parent = 0
			}
			add(record(Exit, 0, seq, stamp, tid, 10, status, signal, 2*parent, parent))
		}
	}
	return messages
}

func play(s *Source, to *sink, messages ...func(*Source)) {
	s.to = to
	for _, m := range messages {
		m(s)
	}
	s.release()
}

// countRecords returns the number of records that are left after all messages have arrived.
func countRecords(s *Source) int {
	s.track.dropRetired(s.clock.now() + 3*maxStraggle)
	return len(s.track.byPID.In) + len(s.track.threads.In)
}

func TestGroupExit(t *testing.T) {
	const unknown = -1
	for _, c := range []struct {
		name  string
		steps []string
		last6 int // wait status from Linux 6.0 on; old: before
		old   int
	}{
		{"one thread", []string{"-10=256"}, 256, 256},
		{"exit_group with threads", []string{"+11", "+12", "-12=768", "-10=768", "-11=768"}, 768, 768},
		{"thread ended before", []string{"+11", "-11=0", "?", "-10=256"}, 256, 256},
		{"thread ended before, perhaps by exit_group", []string{"+11", "-11=0", "-10=256"}, unknown, unknown},
		{"leader first, same", []string{"+11", "-10=0", "-11=0"}, 0, 0},
		{"leader first, thread sets status", []string{"+11", "-10=0", "?", "-11=1792"}, 1792, unknown},
		{"leader first with a status, later another", []string{"+11", "-10=768", "?", "-11=1792"}, 1792, unknown},
		{"leader with a status, another at the same time", []string{"+11", "-10=768", "-11=1792"}, unknown, unknown},
		{"straggler after exit_group", []string{"+11", "-10=768", "-11=0"}, unknown, unknown},
		{"signal wins", []string{"+11", "-11=0", "+12", "-12=139", "-10=139"}, 139, 139},
		{"killed while core is dumped", []string{"+11", "+12", "-12=6", "-10=6", "-11=9"}, unknown, unknown},
		{"signal and straggler", []string{"+11", "-10=15", "-11=0"}, 15, 15},
		{"SIGKILL can be of one thread", []string{"+11", "-10=9", "-11=0"}, unknown, unknown},
		{"SIGSYS can be of one thread", []string{"+11", "-11=31", "-10=1280"}, unknown, unknown},
		{"SIGSYS was of one thread", []string{"+11", "-11=31", "?", "-10=1280"}, 1280, 1280},
		{"SIGSYS with a core", []string{"+11", "-11=0", "-10=159"}, 159, 159},
		{"worker ended, others with the group's", []string{"+11", "+12", "-11=0", "?", "-12=256", "-10=256"}, 256, 256},
		{"the leader was last to begin", []string{"+11", "-11=0", "?", "-10=768"}, 768, 768},
		{"a thread was held between the stamp of its message and sending it", []string{"+11", "-10=768", "~11=768"}, 768, 768},
		{"fork not seen", []string{"-11=0", "-10=0"}, 0, 0},
	} {
		for _, last6 := range []bool{true, false} {
			s := offline(Options{Enrich: source.EnrichNone})
			s.track.last6 = last6
			var got sink
			got.room = 100
			messages := script(c.steps...)
			play(s, &got, messages[:len(messages)-1]...)
			if n := len(got.events.Of(10, engine.KindExit)); n != 0 {
				t.Errorf("%s: got %d exits before the last thread's, want 0", c.name, n)
			}
			play(s, &got, messages[len(messages)-1])
			exits := got.events.Of(10, engine.KindExit)
			if len(exits) != 1 {
				t.Errorf("%s: got %d EXITs, want 1", c.name, len(exits))
				continue
			}
			want := c.last6
			if !last6 {
				want = c.old
			}
			task := exits[0].Task
			if task.Known.Has(engine.FieldExit) != (want != unknown) || want != unknown && int(task.Exit.WaitStatus) != want {
				t.Errorf("%s (6.0: %v): got known %v, status %d, want %d", c.name, last6, task.Known, task.Exit.WaitStatus, want)
			}
			if last := ms + 1000*uint64(len(c.steps)-1); exits[0].Time < last {
				t.Errorf("%s: got end %d, want %d as the last thread", c.name, exits[0].Time, last)
			}
			if task.PPID != 1 || exits[0].Thread {
				t.Errorf("%s: got ppid %d, thread %v", c.name, task.PPID, exits[0].Thread)
			}
			if countRecords(s) != 0 {
				t.Errorf("%s: got remaining records %+v", c.name, s.track.processes)
			}
		}
	}
}

func TestExecEndsThreads(t *testing.T) {
	for _, steps := range [][]string{
		{"+11", "-10=9", "x", "-10=512"}, // thread 11 executes
		// Thread 11 executes. The old leader exits with tid 11.
		{"+11", "-11=9", "x", "-10=512"},
		{"+11", "+12", "-12=9", "-10=9", "x", "-10=512"},   // another thread had to end
		{"+11", "+12", "-11=9", "-12=9", "x", "-10=512"},   // the leader executes
		{"+11", "-10=9", "x", "+13", "-13=512", "-10=512"}, // the new image makes a thread
		// Thread 11 executes and gets tid 10. The old leader's exit message arrives after
		// the exec, with tid 10 or 11.
		{"+11", "x", "~10=0", "-10=512"},
		{"+11", "x", "-11=0", "-10=512"},
		{"+11", "x", "^10=0", "-10=512"},
		{"+11", "x", "+13", "~10=0", "-13=512", "-10=512"},
		{"+11", "^10=0", "x", "-10=512"},
		{"^10=0", "x", "-10=512"}, // the source does not know the thread that executes
		// The old leader's exit message arrives after the end of the process.
		{"+11", "x", "-10=512", "^10=0"},
		{"+11", "x", "-10=512", "~10=0"},
		{"+11", "x", "-10=512", "-11=0"},
		{"+11", "+12", "x", "-11=0", "-10=512", "-12=0"},
		// Thread 11 is killed in its exec, after the other threads have ended.
		{"+11", "-10=0", "-10=512"},
	} {
		s := offline(Options{Enrich: source.EnrichNone})
		got := sink{room: 100}
		play(s, &got, script(steps...)...)
		exits := got.events.Of(10, engine.KindExit)
		if len(exits) != 1 || exits[0].Task.Exit.WaitStatus != 512 {
			t.Errorf("%v: got %d EXITs, want one with status 512", steps, len(exits))
		}
		if countRecords(s) != 0 {
			t.Errorf("%v: got remaining records %+v", steps, s.track.processes)
		}
	}
}

func TestThreadEvents(t *testing.T) {
	s := offline(Options{Enrich: source.EnrichNone}, source.Options{Threads: true})
	got := sink{room: 100}
	play(s, &got, script("+11", "-10=0", "-11=0")...)
	var text string
	for _, ev := range got.events {
		text += fmt.Sprintf("%v %d thread=%v\n", ev.Kind, ev.TID, ev.Thread)
	}
	const want = "FORK 10 thread=false\nFORK 11 thread=true\nEXIT 10 thread=true\nEXIT 11 thread=true\nEXIT 11 thread=false\n"
	if text != want {
		t.Errorf("got\n%swant\n%s", text, want)
	}
}

// The record of a thread is dropped if a new process or thread gets its id, if a new process gets
// the id of its process, or after a loss.
func TestThreadsDoNotLeak(t *testing.T) {
	s := offline(Options{Enrich: source.EnrichNone})
	got := sink{room: 1 << 20}
	play(s, &got, script("+11", "+12", "-11=0")...)
	feed(s, &got, record(Fork, 0, 10, 2*ms, 1, 1, 10, 10))
	if len(s.track.threads.In) != 0 {
		t.Errorf("fork with the id of a thread: got %+v, want no threads", s.track.processes)
	}
	feed(s, &got, record(Fork, 0, 11, 3*ms, 10, 10, 11, 10), record(Fork, 0, 12, 3*ms, 1, 1, 20, 20), record(Fork, 0, 13, 3*ms, 20, 20, 11, 20))
	if s.track.threads.In[11] != 20 || s.track.byPID.In[10].live != 0 {
		t.Errorf("thread with the id of another: got %+v, want it in process 20", s.track.processes)
	}
	s.track.lose(engine.Gap{CPU: engine.AllCPUs})
	s.track.learn()
	if countRecords(s) != 0 {
		t.Errorf("after a loss: got remaining records %+v", s.track.processes)
	}
}

// A thread can change its ids without a message, and then execute. So ids are cached while another
// thread may execute, unless they were read.
func TestIDsOfThreads(t *testing.T) {
	ids := func(s *Source, what What) {
		s.message(record(what, 1, 1, 90*ms, 10, 10, 4182, 0), true)
	}
	for _, c := range []struct {
		name   string
		steps  []string
		cached bool
	}{
		{"no other thread", []string{}, false},
		{"no other thread since an exec", []string{"+11", "-10=9", "x"}, false},
		{"no other thread when it was seen to run", []string{"+11", "-11=0", "?"}, false},
		{"another thread", []string{"+11"}, true},
		{"another thread, and the leader has ended", []string{"+11", "-10=9"}, true},
		{"another thread, which the leader has replaced", []string{"+11", "-11=9"}, true},
	} {
		var got [3]engine.Fields
		for i, what := range []What{Exec, UID, GID} {
			s := offline(Options{Enrich: source.EnrichNone})
			to := sink{room: 100}
			play(s, &to, append(script(c.steps...), func(s *Source) { ids(s, what) })...)
			got[i] = to.events[len(to.events)-1].Task.Cached
		}
		want := [3]engine.Fields{
			engine.FieldsIDs, engine.FieldsIDs &^ engine.FieldUIDs.Set(), engine.FieldsIDs &^ engine.FieldGIDs.Set(),
		}
		if !c.cached {
			want = [3]engine.Fields{1: ofGroup} // the next message may change these ids
		}
		for i := range want[1:] { // the comm may come from an exec that fails
			want[1+i] |= engine.FieldComm.Set()
		}
		if got != want {
			t.Errorf("%s: cached at an exec, a new user and a new group: got %v, want %v", c.name, got, want)
		}
	}
}
