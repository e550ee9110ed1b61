package cnproc

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/groupstatus"
	"github.com/quark-linux/quark/engine"
)

// failed is a process that has ended, of which further threads may send their messages.
type failed struct {
	time   uint64 // of the message that showed the end
	leader bool   // the leader has sent its message
}

const (
	// maxStraggle is how long after a process ended the messages of its threads come, in ns.
	maxStraggle = 1_000_000_000
	// maxFailed bounds the processes that are remembered for that.
	maxFailed = 4096
)

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
// others still run /proc tells: at once, and later on, as more messages need not come. If all end
// together, the process is seen to have ended at the last message, if not before.
func (t *tracker) failure(f *fact) {
	m := f.m
	leader := m.tid == m.pid
	known, ok := t.failed.In[m.pid]
	ok = ok && m.time < known.time+maxStraggle && !(leader && known.leader)
	over, unsure, start := false, false, uint64(0)
	if !ok {
		over, unsure, start = t.over(m)
	}
	f.status, f.known = int32(m.status), true
	if unsure {
		t.loseEnd(m, span{m.time, m.time})
	}
	if !leader || !over {
		f.thread = true
		t.state(f)
	}
	if ok && leader {
		known.leader = true
		t.failed.Put(m.pid, known)
	}
	if !over {
		if start != 0 {
			t.await(m, start)
		}
		return
	}
	t.endFailed(f, leader)
}

// endFailed states the end of a process, with the status of its last message. leader is set if its
// leader has sent one.
func (t *tracker) endFailed(f *fact, leader bool) {
	m := f.m
	t.untold = slices.DeleteFunc(t.untold, func(e untold) bool { return e.pid == m.pid })
	if len(t.failed.In) >= maxFailed {
		clear(t.failed.In)
	}
	t.failed.Put(m.pid, failed{m.time, leader})
	f.thread, f.carried = false, !groupstatus.Certain(f.status)
	t.state(f)
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

// lookForEnds looks at the processes that may end without a message, states the ends of those that
// have, and returns when to look again, 0 for not at all.
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
	return next
}

// endUntold states the end of a process whose last threads ended with status 0. If it ran after the
// one that failed, its status is 0 too from Linux 6.0 on: see groupstatus.Endings.
func (t *tracker) endUntold(e *untold) {
	if e.ran && t.groups.last6 {
		return
	}
	m := &e.m
	m.time = e.seen
	f := &fact{m: m, kind: engine.KindExit, status: int32(m.status), known: !e.ran, doubtful: t.doubtful(m.pid)}
	t.endFailed(f, true)
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
