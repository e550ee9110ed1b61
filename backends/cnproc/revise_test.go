package cnproc

import (
	"testing"

	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/engine"
)

// TestDoubt lets an exec follow another that was read.
func TestDoubt(t *testing.T) {
	const read = 5_000_000
	for _, c := range []struct {
		name   string
		memory uint64 // that the next one was read in, if it was
		known  engine.Fields
		after  uint64 // ns from the reading to the next one's message
		want   bool   // the image stays known
	}{
		{"another image", 8, procfs.Image, 1, true},
		{"the next one's image", 7, procfs.Image, 1, false},
		{"the next one's image, read long before its message", 7, procfs.Image, 100 * unsure, false},
		{"the image after the next", 8, 0, 1, false},
		{"nothing is seen of the next", 0, 0, 1, false},
		{"nothing is seen of the next, which came long after", 0, 0, unsure + 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := engine.NewBuffer(2)
			e := enricher{byPID: map[uint32]int32{}, clock: newClock()}
			exec := func(time, memory uint64, known engine.Fields) *engine.RawEvent {
				ev := b.Reserve()
				ev.Kind, ev.PID, ev.Time, ev.Task.Known = engine.KindExec, 1, time, known
				ev.Seen.Time, ev.Seen.Memory = read, memory
				e.add(ev, 0)
				e.flush(b)
				return ev
			}
			first := exec(1, 7, procfs.Readable)
			exec(read+c.after, c.memory, c.known)
			if got := first.Task.Known.Has(engine.FieldFilename); got != c.want {
				t.Errorf("the image is known: %v, want %v", got, c.want)
			}
			if !first.Task.Known.Has(engine.FieldCwd) {
				t.Error("what an exec does not change is unknown")
			}
		})
	}
}

// TestRevise lets a message of a change follow an exec that was read.
func TestRevise(t *testing.T) {
	const read = 5_000_000
	comm := [16]byte{'n', 'e', 'w'}
	credentials := engine.FieldsIDs | engine.FieldCaps.Set()
	for _, c := range []struct {
		name string
		m    message
		lost engine.Fields
	}{
		{"the new user", message{what: UID, real: 7, eff: 8}, credentials},
		{"the old user", message{what: UID, real: 7, eff: 9}, 0},
		{"the new group", message{what: GID, real: 5, eff: 6}, credentials},
		{"the old group", message{what: GID, real: 4, eff: 6}, 0},
		{"the new session", message{what: SID}, ofSession},
		{"the new comm", message{what: Comm, comm: comm}, engine.FieldComm.Set()},
		{"the old comm", message{what: Comm, comm: [16]byte{'x'}}, 0},
	} {
		for _, soon := range []bool{true, false} {
			b := engine.NewBuffer(1)
			ev := b.Reserve()
			ev.Kind, ev.PID, ev.Time, ev.Seen.Time = engine.KindExec, 1, 1, read
			ev.Set(engine.FieldComm, []byte("new"))
			ev.Task.Known = procfs.Readable
			ev.Task.SID = 1
			ev.Task.Cred = engine.Credentials{UID: 7, EUID: 8, GID: 5, EGID: 6}
			b.Insert(ev)
			m := c.m
			m.tid, m.pid, m.time = 1, 1, read+1
			want := c.lost
			if !soon {
				m.time = read + unsure + 1
				want = 0
			}
			revise(b, &m)
			if got := procfs.Readable &^ ev.Task.Known; got != want {
				t.Errorf("%s, soon %v: unknown is %v, want %v", c.name, soon, got, want)
			}
			// What a thread does to itself says nothing of the process.
			ev.Task.Known = procfs.Readable
			m.tid, m.time = 2, read+1
			if revise(b, &m); m.what != SID && ev.Task.Known != procfs.Readable {
				t.Errorf("%s of a thread: unknown is %v", c.name, procfs.Readable&^ev.Task.Known)
			}
		}
	}
}
