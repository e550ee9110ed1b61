package cnproc

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/groupstatus"
	"github.com/quark-linux/quark/engine"
)

// failed is a process that was seen to be over, of which further threads may send their messages.
type failed struct {
	time   uint64 // of the latest message
	over   uint64 // when it was seen to be over
	leader bool   // the leader has sent its message
	waits  bool   // it is one of tracker.ending
}

const (
	// maxStraggle is how long after a process ended the messages of its threads come, in ns.
	maxStraggle = 1_000_000_000
	// leaderWait is how long that of the leader is waited for once the process was seen to be
	// over, in ns: most send it within microseconds, but may have no CPU.
	leaderWait = 20_000_000
	// maxFailed bounds the processes that are remembered for that.
	maxFailed = 4096
	// maxEnding bounds those whose end waits for later messages.
	maxEnding = 256
)

// waitingEnd is a process that was seen to be over. Its end is that of the thread whose message is
// the latest, so it is stated when the socket was empty: at the first message that is read late the
// process may still have run.
type waitingEnd struct {
	m        message
	time     uint64 // when its end was seen, 0 for the time of m
	seq      uint64
	known    bool // the status of m is that of the process, as far as messages tell
	doubtful bool // as in fact
}

// untold is a process of which a thread failed while it had others. If these end with status 0, as
// those of io_uring do whatever ends their process, no message tells of its end, and /proc does.
type untold struct {
	probe
	m     message // the latest of a thread that failed
	start uint64  // of the process, as /proc has it
	seen  uint64  // when the process was last seen, or the time of m
	ran   bool    // it was seen to run since: what failed was a thread
}

// failure states what an exit message means where only those of threads that failed come. Whether
// others still run /proc tells: at once, and later on, as more messages need not come.
func (t *tracker) failure(f *fact) {
	m := f.m
	leader := m.tid == m.pid
	f.status, f.known = int32(m.status), true
	known, ok := t.failed.In[m.pid]
	if ok && (m.time <= known.over || m.time < known.time+maxStraggle) && !(leader && known.leader) {
		t.straggler(f, known)
		return
	}
	over, unsure, start := t.over(m)
	if unsure {
		t.loseEnd(m, span{m.time, m.time})
	}
	if !leader || !over {
		f.thread = true
		t.state(f)
	}
	switch {
	case over:
		t.end(waitingEnd{m: *m, seq: f.seq, known: true, doubtful: f.doubtful})
	case start != 0:
		t.await(m, start)
	}
}

// straggler handles a further message of a process that was seen to be over.
func (t *tracker) straggler(f *fact, known failed) {
	m := f.m
	leader := m.tid == m.pid
	if leader && !known.waits && m.time > known.over+leaderWait {
		t.loseEnd(m, span{m.time, m.time}) // it may be of the next process of that number
		return
	}
	known.time, known.leader = max(known.time, m.time), known.leader || leader
	t.failed.Put(m.pid, known)
	if known.waits {
		e := &t.ending[t.endingOf(m.pid)]
		if e.time != 0 || m.time >= e.m.time { // else another CPU sent it
			t.told = *e
			e.m, e.time, e.seq, e.known = *m, 0, f.seq, true
			if leader {
				return // it is stated with the end of the process
			}
			if last := &t.told.m; last.tid == last.pid && t.told.time == 0 {
				t.toldEnd = fact{m: last, kind: engine.KindExit, seq: t.told.seq, thread: true, status: int32(last.status), known: true}
				t.state(&t.toldEnd)
			}
		}
	}
	f.thread = true
	t.state(f)
}

func (t *tracker) endingOf(pid uint32) int {
	return slices.IndexFunc(t.ending, func(e waitingEnd) bool { return e.m.pid == pid })
}

// end has the end of a process stated when the socket is empty.
func (t *tracker) end(e waitingEnd) {
	pid := e.m.pid
	t.untold = slices.DeleteFunc(t.untold, func(u untold) bool { return u.pid == pid })
	if len(t.failed.In) >= maxFailed {
		t.tellEnds(0)
		clear(t.failed.In)
	}
	if t.failed.In[pid].waits { // the process that had the number before
		t.tellEnd(t.endingOf(pid))
	}
	if len(t.ending) >= maxEnding {
		t.tellEnd(0)
	}
	t.ending = append(t.ending, e)
	t.failed.Put(pid, failed{time: e.m.time, over: t.clock.now(), leader: e.m.tid == pid, waits: true})
}

// tellEnd states the end of a process that waits for it.
func (t *tracker) tellEnd(i int) {
	e := &t.told
	*e = t.ending[i]
	t.ending = slices.Delete(t.ending, i, i+1)
	known := t.failed.In[e.m.pid]
	known.waits = false
	t.failed.Put(e.m.pid, known)
	if e.time != 0 {
		e.m.time = e.time
	}
	status := int32(e.m.status)
	t.toldEnd = fact{m: &e.m, kind: engine.KindExit, seq: e.seq, status: status, known: e.known, doubtful: e.doubtful,
		carried: e.known && !groupstatus.Certain(status)}
	t.state(&t.toldEnd)
}

// tellEnds states the ends that need not wait at a time, 0 for all, and returns when the next one
// need not, 0 if there is none.
func (t *tracker) tellEnds(now uint64) (next uint64) {
	for i := 0; i < len(t.ending); {
		known := t.failed.In[t.ending[i].m.pid]
		if until := known.over + leaderWait; now != 0 && !known.leader && now < until {
			next = soonest(next, until)
			i++
			continue
		}
		t.tellEnd(i)
	}
	return next
}

// await has the process of a message looked at until it is seen to have ended.
func (t *tracker) await(m *message, start uint64) {
	next := untold{probe: probe{pid: m.pid}, m: *m, start: start, seen: m.time}
	i := slices.IndexFunc(t.untold, func(e untold) bool { return e.pid == m.pid })
	switch {
	case i >= 0:
		t.untold[i] = next
	case len(t.untold) < maxFailed:
		t.untold = append(t.untold, next)
	default:
		t.loseEnd(m, span{m.time, t.clock.now()}) // it may be
	}
}

// lookForEnds looks at the processes that may end without a message, states the ends that need not
// wait any more, and returns when to look again, 0 for not at all.
func (t *tracker) lookForEnds() (next uint64) {
	for i := 0; i < len(t.untold); {
		e := &t.untold[i]
		now := t.clock.now()
		if now < e.after {
			next = soonest(next, e.after)
			i++
			continue
		}
		st, start, err := t.view.Status(e.pid)
		if err == nil && start == e.start && !st.Over() {
			if alive, _ := groupstatus.Runs(t.view, e.pid, true); alive {
				e.ran = true
			}
			e.seen = now
			next = soonest(next, e.later(now))
			i++
			continue
		}
		ended := *e
		t.untold = slices.Delete(t.untold, i, i+1)
		t.endUntold(&ended)
	}
	if len(t.ending) > 0 {
		next = soonest(next, t.tellEnds(t.clock.now()))
	}
	return next
}

// endUntold has the end of a process stated whose last threads ended with status 0, or are about to
// send their messages. If it ran after the one that failed, its status is 0 too from Linux 6.0 on,
// unless a message tells another: see groupstatus.Endings.
func (t *tracker) endUntold(e *untold) {
	if e.ran && t.groups.last6 {
		return
	}
	t.end(waitingEnd{m: e.m, time: e.seen, known: !e.ran, doubtful: t.doubtful(e.pid)})
}

// over reports whether the process of an exit message has ended, and whether that can't be told, as
// a leader of its number runs: that of another process, or, with the same start time, the thread
// that has taken the place of this leader to execute. The status of this leader is SIGKILL then. Of
// a process that is there start is the start time.
func (t *tracker) over(m *message) (over, unsure bool, start uint64) {
	if t.view == nil {
		return m.tid == m.pid, false, 0
	}
	st, start, err := t.view.Status(m.pid)
	switch {
	case err != nil || !t.clock.StartedBy(start, m.time):
		return true, false, 0
	case st.Zombie():
		return st.Threads <= 1, false, start
	case m.tid != m.pid || t.clock.StartedBefore(start, m.time):
		return false, false, start
	}
	killed := m.status == uint32(unix.SIGKILL)
	return !killed, killed, 0
}
