package kprobe

import (
	"slices"

	"github.com/quark-linux/quark/engine"
)

// endings follow the ends of threads until their group has ended. The status of
// a group may be that of its leader, whose record may come later than that of
// the last thread when they end together.
type endings struct {
	byPID  map[uint32]ending
	parked []parkedExit
}

type ending struct {
	start    uint64
	time     uint64 // of the last record
	code     int32
	leader   bool // the leader has ended, with code
	reported bool // the group's end was
}

// parkedExit is the end of a group whose status its leader's record will tell.
type parkedExit struct {
	ev *engine.RawEvent
}

const (
	// maxEndings bounds the groups remembered: leaders that ended before their
	// group are rare.
	maxEndings = 8192
	// maxParked is how long the leader's record is waited for, in nanoseconds.
	// It comes within microseconds, unless it was lost.
	maxParked = 20e6
)

// signalGroupExit is SIGNAL_GROUP_EXIT of linux/sched/signal.h.
const signalGroupExit = 4

// verdict is what is to be done with the record of a thread's end.
type verdict uint8

const (
	notTheGroup verdict = iota // a thread ended, and not its group
	groupEnded                 // report the group's end
	groupParked                // keep the group's end until its status is known
)

// judge tells what the end of a thread means and, for groupEnded, the status.
func (e *endings) judge(a *assembly) (verdict, int32) {
	v := &a.values
	pid, start := v.u32(slotTGID), v.number(slotStart)
	leader := pid == v.u32(slotTID)
	known, ok := e.byPID[pid]
	if ok && known.start != start {
		delete(e.byPID, pid)
		known, ok = ending{}, false
	}
	dead, oneOnly := v.u32(slotGroupDead) != 0, true
	if !a.known(slotGroupDead) {
		// More than one thread can see that none lives, and the records of those
		// that are gone by now may come later, from another CPU.
		dead, oneOnly = v.u32(slotLive) == 0, false
	}
	own := int32(v.u32(slotOwnCode))
	if !dead || known.reported {
		if leader {
			known.start, known.time, known.code, known.leader = start, a.time, own, true
			e.remember(pid, known)
		}
		return notTheGroup, own
	}
	var status int32
	switch {
	case v.u32(slotSignalFlags)&signalGroupExit != 0:
		status = int32(v.u32(slotGroupCode))
	case leader:
		status = own
	case v.u32(slotLeaderState) != 0:
		status = int32(v.u32(slotLeaderCode))
	case known.leader:
		status = known.code
	default:
		if !oneOnly {
			e.remember(pid, ending{start: start, time: a.time, reported: true})
		}
		return groupParked, 0
	}
	if oneOnly {
		if ok {
			delete(e.byPID, pid)
		}
	} else {
		e.remember(pid, ending{start: start, time: a.time, reported: true})
	}
	return groupEnded, status
}

func (e *endings) remember(pid uint32, what ending) {
	if len(e.byPID) >= maxEndings {
		for old := range e.byPID { // any
			delete(e.byPID, old)
			break
		}
	}
	e.byPID[pid] = what
}

// executed forgets a leader that ended because another thread took its place.
// The record of an execve may come after that of the end that followed it.
func (e *endings) executed(pid uint32, time uint64) {
	if known, ok := e.byPID[pid]; ok && known.time < time {
		delete(e.byPID, pid)
	}
}

// take returns the parked end of the group with this leader, nil if there is
// none.
func (e *endings) take(pid uint32, start uint64) *engine.RawEvent {
	for i, p := range e.parked {
		if p.ev.PID == pid && p.ev.Task.Start == start {
			e.parked = slices.Delete(e.parked, i, i+1)
			return p.ev
		}
	}
	return nil
}

// overdue returns a parked end that was waited for too long.
func (e *endings) overdue(now uint64) *engine.RawEvent {
	if len(e.parked) == 0 || now < e.parked[0].ev.Time+maxParked {
		return nil
	}
	ev := e.parked[0].ev
	e.parked = slices.Delete(e.parked, 0, 1)
	return ev
}
