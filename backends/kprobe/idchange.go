package kprobe

import "github.com/quark-linux/quark/engine"

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
type idChanges struct {
	asked map[uint64]asked // by the address of the new credentials
	told  []told
}

// asked is the first call.
type asked struct {
	time uint64
	old  engine.Credentials
}

// told is the second call. The task may have changed its CPU meanwhile, so that
// the records come in another order.
type told struct {
	ev    *engine.RawEvent
	cred  uint64
	which engine.IDChange
}

const (
	// maxAsked bounds what is remembered: calls that were refused or changed
	// nothing are not followed by the second one.
	maxAsked = 1024
	// maxAsking is how long it takes from one call to the other, in nanoseconds;
	// an address may be used again later.
	maxAsking = 1e9
)

func (c *idChanges) ask(a *assembly) {
	if len(c.asked) >= maxAsked {
		for cred, other := range c.asked {
			if other.time+maxAsking < a.time || len(c.asked) >= maxAsked {
				delete(c.asked, cred)
			}
		}
	}
	c.asked[a.values.number[slotCred]] = asked{a.time, a.values.credentials()}
}

// settle says what changed with the records of told; 0 for nothing.
func (c *idChanges) settle(t told) (change engine.IDChange) {
	a, ok := c.asked[t.cred]
	if !ok || a.time > t.ev.Time || t.ev.Time > a.time+maxAsking {
		return 0
	}
	delete(c.asked, t.cred)
	o, n := &a.old, &t.ev.Task.Cred
	if o.UID != n.UID || o.EUID != n.EUID || o.SUID != n.SUID {
		change |= engine.ChangedUID
	}
	if o.GID != n.GID || o.EGID != n.EGID || o.SGID != n.SGID {
		change |= engine.ChangedGID
	}
	return change
}

// settleIDs hands over the changes of ids of which both records were read.
func (s *Source) settleIDs(b sink) {
	for i, t := range s.ids.told {
		change := s.ids.settle(t)
		if t.which == engine.ChangedUID && s.setOf(familyUID) == nil || t.which == engine.ChangedGID && s.setOf(familyGID) == nil {
			change |= t.which // as nobody asks before
		}
		if change != 0 {
			t.ev.IDChange = change
			s.hand(b, t.ev)
		} else {
			b.Release(t.ev)
		}
		s.ids.told[i] = told{}
	}
	s.ids.told = s.ids.told[:0]
}
