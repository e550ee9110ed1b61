package kprobe

import (
	"cmp"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
)

// endings detects the end of each thread group from the records of exiting threads. The status of
// the group may be its leader's. When threads exit at the same time, the leader's record may follow
// the last thread's record.
type endings struct {
	byPID  map[uint32]ending
	parked []*engine.RawEvent // ends of groups, waiting for the status in the leader's record
}

type ending struct {
	start    uint64
	time     uint64 // of the last record
	code     int32
	leader   bool // the leader has exited with code
	reported bool // the end of the group was reported
}

// maxEndings bounds the number of groups in byPID. Few leaders exit before their group.
const maxEndings = 8192

// groupStatus returns the status with which all threads exit, and whether it is certain. If the
// group is init of a pid namespace in which reboot(2) was called, the kernel sets another status
// later.
func (v *values) groupStatus() (status int32, certain bool) {
	status = int32(v.u32(slotGroupCode))
	level := slot(v.number(slotPIDLevel))
	switch {
	case level == 0:
		return status, true
	case level > pidLevels || !v.slots.has(slotPIDs): // perhaps init
		return status, status != int32(unix.SIGKILL)
	case v.u32(slotPIDs+2*(level-1)) != 1:
		return status, true
	}
	reboot := slotReboots + level - 1
	return cmp.Or(int32(v.u32(reboot)), status), v.slots.has(reboot)
}

// subreapers are the bits of is_child_subreaper and has_child_subreaper in their word: neighbouring
// bits, or bytes on Linux 7.3.
const subreapers = 0x103

// nextParent returns the process that becomes the parent of the children of a process that ends, 0
// for no children. children is the offset of the list in struct task_struct. Other threads that end
// can have had children too. A fetch argument cannot search the ancestors for a subreaper.
func (v *values) nextParent(children uint64) uint32 {
	switch {
	case !v.slots.hasAll(slotChildren, slotSubreapers), v.number(slotChildren) == v.number(slotTask)+children && v.u32(slotThreads) <= 1:
		return 0
	case v.number(slotSubreapers)&subreapers != 0, v.number(slotPIDLevel) != 0:
		return engine.UnknownReaper
	}
	return 1
}

// signalGroupExit is SIGNAL_GROUP_EXIT of linux/sched/signal.h.
const signalGroupExit = 4

// endKind is the meaning of a thread's end for its group.
type endKind uint8

const (
	notTheGroup endKind = iota // the group lives, or its end was already reported
	groupEnded                 // the group has ended
	groupParked                // the group has ended; its leader's record is still to come
)

// classify returns the meaning of a thread's exit. For groupEnded it also returns the group's
// status, and whether the status is certain.
func (e *endings) classify(a *assembly) (what endKind, status int32, certain bool) {
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
		// Several threads can see that none is alive. Their records come from different
		// CPUs, in any order.
		dead, oneOnly = v.u32(slotLive) == 0, false
	}
	own := int32(v.u32(slotOwnCode))
	if !dead || known.reported {
		if leader {
			known.start, known.time, known.code, known.leader = start, a.time, own, true
			e.remember(pid, known)
		}
		return notTheGroup, own, true
	}
	certain = true
	switch {
	case v.u32(slotSignalFlags)&signalGroupExit != 0:
		status, certain = v.groupStatus()
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
		return groupParked, 0, false
	}
	if oneOnly {
		if ok {
			delete(e.byPID, pid)
		}
	} else {
		e.remember(pid, ending{start: start, time: a.time, reported: true})
	}
	return groupEnded, status, certain
}

func (e *endings) remember(pid uint32, what ending) {
	if len(e.byPID) >= maxEndings {
		for old := range e.byPID { // any group
			delete(e.byPID, old)
			break
		}
	}
	e.byPID[pid] = what
}

// executed removes a leader that exited because another thread called execve and took its place.
// The record of an execve may follow the record of a later exit.
func (e *endings) executed(pid uint32, time uint64) {
	if known, ok := e.byPID[pid]; ok && known.time < time {
		delete(e.byPID, pid)
	}
}

// takeParked removes and returns the parked end of this leader's group, or nil.
func (e *endings) takeParked(pid uint32, start uint64) *engine.RawEvent {
	for i, ev := range e.parked {
		if ev.PID == pid && ev.Task.Start == start {
			e.parked = slices.Delete(e.parked, i, i+1)
			return ev
		}
	}
	return nil
}

// overdue removes and returns the oldest parked end if it has waited too long, or nil. The leader's
// record comes within microseconds, unless the record was lost or the leader waits for a CPU.
func (e *endings) overdue(now uint64) *engine.RawEvent {
	if len(e.parked) == 0 || now < e.parked[0].Time+maxWait {
		return nil
	}
	ev := e.parked[0]
	e.parked = slices.Delete(e.parked, 0, 1)
	return ev
}
