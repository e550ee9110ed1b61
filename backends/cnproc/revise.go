package cnproc

import (
	"bytes"

	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/engine"
)

// A change is in /proc some instructions before its message is made, and a busy
// machine can let a process wait right there. What was read then is of after the
// change, and nothing showed it. The engine holds an event for a while, so the message
// that comes at last can take back what the event before it may have got too early.

// unsure is for how many ns after a reading a message may be of a change that the
// reading saw.
const unsure = 10_000_000

// lookBack is how many events of a process are searched: more than there are within
// that time, and few enough for one that sends nothing but messages.
const lookBack = 64

// revise takes from the last fork or exec of m's process what was read so short
// before m that it may show what m reports, and does.
func revise(b buffer, m *message) {
	if m.what&(UID|GID|SID|Comm) == 0 {
		return // for an exec see doubt
	}
	lost := changedBy(m)
	if lost == 0 {
		return
	}
	// With an exec between a fork and m, the fork was read before that.
	ev := b.Last(m.pid, engine.EventFork|engine.EventExec, lookBack)
	if ev != nil && m.time <= ev.Seen.Time+unsure && m.showsIn(ev) {
		ev.Task.Known &^= lost
	}
}

// showsIn reports whether ev has what m says, or nothing that tells.
func (m *message) showsIn(ev *engine.RawEvent) bool {
	t := &ev.Task
	switch m.what {
	case UID:
		return !t.Known.Has(engine.FieldUIDs) || t.Cred.UID == m.real && t.Cred.EUID == m.eff
	case GID:
		return !t.Known.Has(engine.FieldGIDs) || t.Cred.GID == m.real && t.Cred.EGID == m.eff
	case SID:
		return !t.Known.Has(engine.FieldSID) || t.SID == m.pid
	case Comm:
		return !t.Known.Has(engine.FieldComm) || bytes.Equal(ev.Bytes(engine.FieldComm), m.newComm())
	}
	return true
}

// doubt takes the image away from an exec when it may be that of next, the exec
// after it: when both were read in the same memory, and, if next could not be
// read, when it came soon after the reading.
func doubt(ev, next *engine.RawEvent) {
	seen := next.Task.Known & procfs.Image & ev.Task.Known
	switch {
	case ev.Seen.Memory == next.Seen.Memory && ev.Seen.Memory != 0:
	case ev.Seen.Memory != 0 && next.Seen.Memory != 0 && seen != 0:
		return
	case next.Time > ev.Seen.Time+unsure:
		return
	}
	ev.Task.Known &^= ofExec
}
