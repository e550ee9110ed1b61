package cnproc

import (
	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/groupstatus"
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

// failure states what an exit message means where only those of threads that failed come. Whether
// others still run /proc tells. If all end together, the process is seen to have ended at the
// last message, if not before.
func (t *tracker) failure(f *fact) {
	m := f.m
	leader := m.tid == m.pid
	known, ok := t.failed[m.pid]
	ok = ok && m.time < known.time+maxStraggle && !(leader && known.leader)
	over, unsure := false, false
	if !ok {
		over, unsure = t.over(m)
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
		t.failed[m.pid] = known
	}
	if !over {
		return
	}
	if len(t.failed) >= maxFailed {
		clear(t.failed)
	}
	if t.failed == nil {
		t.failed = map[uint32]failed{}
	}
	t.failed[m.pid] = failed{m.time, leader}
	f.thread, f.carried = false, !groupstatus.Certain(f.status)
	t.state(f)
}

// over reports whether the process of an exit message has ended, and whether that can't be told, as
// a leader of its number runs: that of another process, or, with the same start time, the thread
// that has taken the place of this leader to execute. The status of this leader is SIGKILL then.
func (t *tracker) over(m *message) (over, unsure bool) {
	if t.view == nil {
		return m.tid == m.pid, false
	}
	st, start, err := t.view.Status(m.pid)
	switch {
	case err != nil || !t.clock.StartedBy(start, m.time):
		return true, false
	case st.Zombie():
		return st.Threads <= 1, false
	case m.tid != m.pid || t.clock.StartedBefore(start, m.time):
		return false, false
	}
	killed := m.status == uint32(unix.SIGKILL)
	return !killed, killed
}
