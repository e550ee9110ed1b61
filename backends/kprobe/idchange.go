package kprobe

import (
	"slices"

	"github.com/quark-linux/quark/engine"
)

// What proc_id_connector is told (linux/cn_proc.h).
const (
	whichUID = 0x4
	whichGID = 0x40
)

// whichIDs are those that the second call says were changed; 0 if it does not.
func (a *assembly) whichIDs() engine.IDChange {
	if a.known(slotWhichID) {
		switch a.values.u32(slotWhichID) {
		case whichUID:
			return engine.ChangedUID
		case whichGID:
			return engine.ChangedGID
		}
	}
	return 0
}

// A change of ids is two calls of the kernel: one that asks whether new
// credentials may replace the old ones (security_task_fix_setuid or _setgid),
// which has both, and one that is told when they have done so. Setting ids to
// what they were, and those of file system access, which are no ids of quark's,
// differ in nothing from another change until both are compared. An execve goes
// another way, and its EXEC has the new ids.
//
// Which call belongs to which can be told only once the records of all CPUs were
// read: the task may have changed its CPU in between, and an address is used again
// soon after the credentials of a change were replaced by the next.
type idChanges struct {
	asked []asked // in the order of reading
	told  []told
}

// asked is the first call.
type asked struct {
	cred uint64 // address of the new credentials
	tid  uint32
	time uint64
	old  engine.Credentials
}

// told is the second call.
type told struct {
	ev    *engine.RawEvent
	cred  uint64
	tid   uint32
	which engine.IDChange
}

const (
	// maxAsked bounds what is remembered: calls that were refused or changed
	// nothing are not followed by the second one.
	maxAsked = 4096
	// maxAsking is how long it takes from one call to the other, in nanoseconds;
	// an address may be used again later.
	maxAsking = 1e9
)

func (c *idChanges) ask(a *assembly) {
	if len(c.asked) >= maxAsked {
		if c.forget(a.time); len(c.asked) >= maxAsked {
			c.asked = slices.Delete(c.asked, 0, 1)
		}
	}
	c.asked = append(c.asked, asked{a.values.number(slotCred), a.tid, a.time, a.values.credentials()})
}

// forget drops calls that no second one can follow any more.
func (c *idChanges) forget(now uint64) {
	c.asked = slices.DeleteFunc(c.asked, func(a asked) bool { return a.time+maxAsking < now })
}

// settle says what changed with the records of told; 0 for nothing.
func (c *idChanges) settle(t told) (change engine.IDChange) {
	last := -1 // before it
	for i := range c.asked {
		a := &c.asked[i]
		if a.cred == t.cred && a.tid == t.tid && a.time <= t.ev.Time && t.ev.Time <= a.time+maxAsking && (last < 0 || a.time > c.asked[last].time) {
			last = i
		}
	}
	if last < 0 {
		return 0
	}
	o, n := &c.asked[last].old, &t.ev.Task.Cred
	if o.UID != n.UID || o.EUID != n.EUID || o.SUID != n.SUID {
		change |= engine.ChangedUID
	}
	if o.GID != n.GID || o.EGID != n.EGID || o.SGID != n.SGID {
		change |= engine.ChangedGID
	}
	c.asked = slices.Delete(c.asked, last, last+1)
	return change
}

// settleIDs hands over the changes of ids of which both records were read.
func (s *Source) settleIDs(to engine.Sink) {
	var now uint64
	for i, t := range s.ids.told {
		now = max(now, t.ev.Time)
		change := s.ids.settle(t)
		if t.which == engine.ChangedUID && s.setOf(familyUID) == nil || t.which == engine.ChangedGID && s.setOf(familyGID) == nil {
			change |= t.which // as nobody asks before
		}
		if change != 0 {
			t.ev.IDChange = change
			s.hand(to, t.ev)
		} else {
			to.Release(t.ev)
		}
		s.ids.told[i] = told{}
	}
	s.ids.told = s.ids.told[:0]
	if now > 0 {
		s.ids.forget(now)
	}
}
