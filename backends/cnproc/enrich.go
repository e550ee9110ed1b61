package cnproc

import (
	"math"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/engine"
)

// What /proc says is of the moment of reading. It is given to an event only as
// far as nothing shows that it is of another time:
//
//   - all is read through one descriptor, so it is of one process, and that one
//     started no later than the event;
//   - a fork's executable, command line and comm are taken only while the process
//     has not executed another image, which the kernel shows as a flag, and nobody's
//     while an exec is half way, see [procfs.Reader.Read];
//   - a fork's session is not the one that the process leads itself;
//   - messages that wait in the socket after the reads, and those that came before
//     them in the same batch, take away what they say has changed since; those that
//     come soon after take away what may have been read too early, see revise.
//
// What changes without a message (capabilities, namespaces, process group, terminal,
// working directory, cgroup) is as of right after the event.

// changedBy are the fields that a message of the kind makes stale.
func changedBy(m *message) engine.Fields {
	switch m.what {
	case Exec:
		return ofExec
	case UID, GID:
		if m.tid == m.pid {
			return engine.FieldsIDs | engine.FieldCaps.Set()
		}
	case SID:
		return ofSession
	case Comm:
		if m.tid == m.pid {
			return engine.FieldComm.Set()
		}
	case Fork:
		if m.tid == m.pid {
			return engine.AllFields // another process with the same number
		}
	}
	return 0
}

const (
	// ofExec are the fields that an exec changes: it computes new capabilities, too.
	// New ids come as UID and GID.
	ofExec = procfs.Image | 1<<engine.FieldCaps

	// ofSession are the fields that setsid(2) changes.
	ofSession = engine.Fields(1<<engine.FieldSID | 1<<engine.FieldPGID | 1<<engine.FieldTTY)
)

// held is an event that waits for what the socket says after it was read.
type held struct {
	ev   *engine.RawEvent
	want engine.Fields // to be read
	read engine.Fields // were read
	done bool          // has been read
	wait bool          // until due: an exec may make the reading needless
}

// enricher holds the events of a batch.
type enricher struct {
	proc  *procfs.Reader
	held  []held
	byPID map[uint32]int32 // index in held of the latest fork or exec
	clock clock
	delay uint64 // ns that a fork waits for its exec, 0 for not at all
	// Reads and Rejected count processes read and reads that were given up.
	reads, rejected uint64
}

// note makes m take away what it changes from an event of its process that is
// being held.
func (e *enricher) note(m *message) {
	if len(e.byPID) == 0 {
		return
	}
	i, ok := e.byPID[m.pid]
	if !ok {
		return
	}
	h := &e.held[i]
	if m.what == Exit {
		h.wait = false
	}
	lost := changedBy(m)
	if lost == 0 {
		return
	}
	h.want &^= lost
	if m.what == Exec && !h.done {
		h.want, h.wait = 0, false // the exec's own read follows, one is enough
	}
	// Stamps do not help: a change is in /proc somewhat before its message is made.
	h.ev.Task.Known &^= h.read & lost
}

// add holds ev. Fields of want are to be read for it.
func (e *enricher) add(ev *engine.RawEvent, want engine.Fields) {
	wait := e.delay > 0 && want != 0 && ev.Kind == engine.KindFork
	e.held = append(e.held, held{ev: ev, want: want, wait: wait})
	if want != 0 {
		e.byPID[ev.PID] = int32(len(e.held) - 1)
	}
}

// readAll reads what the held events want, except for forks that can wait.
func (e *enricher) readAll() (read bool) {
	if len(e.byPID) == 0 {
		return false
	}
	e.clock.update()
	now := e.clock.now()
	for i := range e.held {
		h := &e.held[i]
		if h.want == 0 || h.done {
			continue
		}
		if h.wait = h.wait && now < h.ev.Time+e.delay; h.wait {
			continue
		}
		read = true
		e.read(h)
	}
	return read
}

// waiting reports whether an event is held for a later call.
func (e *enricher) waiting() bool { return len(e.held) > 0 }

func (e *enricher) read(h *held) {
	t := &h.ev.Task
	own := t.Known // said by the kernel: not to be replaced
	want := h.want &^ own
	e.reads++
	st, err := e.proc.Read(h.ev.PID, want|engine.FieldStart.Set(), h.ev)
	h.done = true
	if err != nil {
		return
	}
	const tick = engine.ProcStartUnit
	if t.Start/tick > e.clock.boot(h.ev.Time)/tick {
		// Another process with the same number.
		e.rejected++
		t.Known, t.Truncated = own, t.Truncated&own
		return
	}
	if st.Zombie() {
		// Its parent may have ended since, and its children are another's then.
		t.Known &^= want & engine.FieldPPID.Set()
	}
	if h.ev.Kind == engine.KindFork && t.SID == h.ev.PID {
		// No child is born as the leader of a session: it is about to send the
		// message of its setsid(2), or has.
		t.Known &^= want & ofSession
	}
	switch {
	case h.ev.Kind == engine.KindFork && !st.ForkNoExec && !st.Kthread:
		// It is executing, or has executed; the event of that follows. It may
		// have got other ids and capabilities with the image.
		t.Known &^= want & procfs.Replaced
	case h.ev.Kind == engine.KindExec && st.State == 't':
		// A tracer can hold it between the next image and its message.
		t.Known &^= want & procfs.Image
	}
	h.read = t.Known &^ own
	h.ev.Seen.Time, h.ev.Seen.Memory = e.clock.now(), st.Memory
}

// flush gives the held events to b but for those that wait.
func (e *enricher) flush(b buffer) (n uint64) {
	if len(e.byPID) > 0 {
		clear(e.byPID)
	}
	kept := e.held[:0]
	for i := range e.held {
		h := e.held[i]
		if h.wait {
			e.byPID[h.ev.PID] = int32(len(kept))
			kept = append(kept, h)
			continue
		}
		if h.ev.Kind == engine.KindExec {
			// Each exec is the end of the next one's search.
			if before := b.Last(h.ev.PID, engine.EventExec, math.MaxInt); before != nil {
				doubt(before, h.ev)
			}
		}
		b.Insert(h.ev)
		n++
	}
	clear(e.held[len(kept):])
	e.held = kept
	return n
}

// release ends all waiting.
func (e *enricher) release() {
	for i := range e.held {
		e.held[i].wait = false
	}
}

// clock converts CLOCK_MONOTONIC to CLOCK_BOOTTIME.
type clock struct {
	base   time.Time
	mono   uint64 // CLOCK_MONOTONIC at base
	offset uint64 // BOOTTIME - MONOTONIC now, or less: the time spent in suspend
	before uint64 // the same at the update before
}

func readClock(id int32) uint64 {
	var ts unix.Timespec
	unix.ClockGettime(id, &ts) // cannot fail for these clocks
	return uint64(ts.Nano())
}

func newClock() clock {
	var c clock
	c.base = time.Now()
	c.mono = readClock(unix.CLOCK_MONOTONIC)
	c.update()
	c.update()
	return c
}

// now is CLOCK_MONOTONIC without a system call: Go's monotonic time is of that
// clock.
func (c *clock) now() uint64 { return c.mono + uint64(time.Since(c.base)) }

func (c *clock) update() {
	boot := readClock(unix.CLOCK_BOOTTIME)
	c.note(boot, readClock(unix.CLOCK_MONOTONIC))
}

// note takes stamps of both clocks, CLOCK_BOOTTIME's first: however long it takes to
// come to the other, the difference is no more than what was spent in suspend, which
// never gets less. More of it would let the next process of a pid be taken for the
// first.
func (c *clock) note(boot, mono uint64) {
	c.before = c.offset
	if boot > mono {
		c.offset = max(c.offset, boot-mono)
	}
}

// boot converts a stamp. It may be of before a suspend that ended since the last
// update; then the smaller offset is right, and otherwise it is the safe side: a
// process is rather taken for a later one.
func (c *clock) boot(mono uint64) uint64 { return mono + min(c.offset, c.before) }
