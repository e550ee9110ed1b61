package kprobe

import (
	"slices"

	"github.com/quark-linux/quark/engine"
)

// The values of the second argument of proc_id_connector (linux/cn_proc.h).
const (
	whichUID = 0x4
	whichGID = 0x40
)

// whichIDs returns the ids that the second call reports as changed, or 0 for none.
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

// idChanges pairs the two calls that the kernel makes for a change of ids. The first call asks
// whether new credentials may replace the old ones (security_task_fix_setuid or _setgid) and has
// both. The second call reports the replacement. Only a comparison of the old and new credentials
// shows a change: a process can set the ids that it already has, or its fsuid and fsgid, which
// quark does not report. An execve makes other calls, and its EXEC has the new ids.
//
// A second call without a first one waits until the records of all CPUs were read, as the task may
// have moved to another CPU between the calls. It does not wait longer, as the address of replaced
// credentials is reused soon.
type idChanges struct {
	first  []firstCall // in the order of reading
	second []secondCall
	now    uint64 // time of the latest second call
}

// firstCall asks whether new credentials may replace the old ones.
type firstCall struct {
	cred uint64 // address of the new credentials
	tid  uint32
	time uint64
	old  engine.Credentials
}

// secondCall reports that new credentials have replaced the old ones.
type secondCall struct {
	ev    *engine.RawEvent
	cred  uint64
	tid   uint32
	which engine.IDChange
}

const (
	// maxFirstCalls bounds the number of first calls. No second call follows a first call that
	// was refused or changed nothing.
	maxFirstCalls = 4096
	// maxChange is the longest time between the two calls in ns. Later, an address may belong
	// to other credentials.
	maxChange = 1e9
)

func (c *idChanges) addFirst(a *assembly) {
	if len(c.first) >= maxFirstCalls {
		if c.forget(a.time); len(c.first) >= maxFirstCalls {
			c.first = slices.Delete(c.first, 0, 1)
		}
	}
	c.first = append(c.first, firstCall{a.values.number(slotCred), a.tid, a.time, a.values.credentials(slotUID)})
}

// forget removes first calls that are too old for a second call.
func (c *idChanges) forget(now uint64) {
	c.first = slices.DeleteFunc(c.first, func(a firstCall) bool { return a.time+maxChange < now })
}

// compare returns the ids that a second call has changed, and whether a first call was found.
func (c *idChanges) compare(t secondCall) (change engine.IDChange, paired bool) {
	last := -1 // index of the latest first call before t
	for i := range c.first {
		a := &c.first[i]
		if a.cred == t.cred && a.tid == t.tid && a.time <= t.ev.Time && t.ev.Time <= a.time+maxChange && (last < 0 || a.time > c.first[last].time) {
			last = i
		}
	}
	if last < 0 {
		return 0, false
	}
	o, n := &c.first[last].old, &t.ev.Task.Cred
	if o.UID != n.UID || o.EUID != n.EUID || o.SUID != n.SUID {
		change |= engine.ChangedUID
	}
	if o.GID != n.GID || o.EGID != n.EGID || o.SGID != n.SGID {
		change |= engine.ChangedGID
	}
	c.first = slices.Delete(c.first, last, last+1)
	return change, true
}

// reportIDs passes a change of ids to the sink if the records of both calls were read. Otherwise it
// keeps the second call. With all set, no more records of first calls are expected.
func (s *Source) reportIDs(to engine.Sink, t secondCall, all bool) {
	s.ids.now = max(s.ids.now, t.ev.Time)
	change, paired := s.ids.compare(t)
	if t.which == engine.ChangedUID && s.setOf(familyUID) == nil || t.which == engine.ChangedGID && s.setOf(familyGID) == nil {
		change |= t.which // the first call is not probed
	}
	switch {
	case change != 0:
		t.ev.IDChange = change
		s.insert(to, t.ev)
	case paired || all:
		to.Release(t.ev)
	default:
		s.ids.second = append(s.ids.second, t)
	}
}

// reportUnpaired ends the wait for records of first calls, after the rings of all CPUs were read.
func (s *Source) reportUnpaired(to engine.Sink) {
	for i, t := range s.ids.second {
		s.reportIDs(to, t, true)
		s.ids.second[i] = secondCall{}
	}
	s.ids.second = s.ids.second[:0]
	s.ids.forget(s.ids.now)
}
