package kprobe

import "github.com/quark-linux/quark/engine"

// What proc_id_connector is told (linux/cn_proc.h).
const (
	whichUID = 0x4
	whichGID = 0x40
)

// fsIDs remembers the tasks whose ids of file system access differ from their
// effective ones. The kernel reports a change of those as one of the others,
// and setfsuid(2) back to the effective id looks like setuid(2).
type fsIDs map[uint32]fsID

type fsID struct {
	start uint64
	ids   [6]uint32
}

const maxFSIDs = 1024

// changed returns what changed, 0 for nothing that is reported.
func (f fsIDs) changed(a *assembly) engine.IDChange {
	v := &a.values
	if a.known(slotMutexOwner) && v.number[slotMutexOwner]&^7 == v.number[slotTask] {
		return 0 // execve, whose EXEC has the new ids. The low bits are flags
	}
	var change engine.IDChange
	var differs bool
	switch v.u32(slotWhichID) {
	case whichUID:
		change = engine.ChangedUID
		differs = a.known(slotFSUID) && v.u32(slotFSUID) != v.u32(slotEUID)
	case whichGID:
		change = engine.ChangedGID
		differs = a.known(slotFSGID) && v.u32(slotFSGID) != v.u32(slotEGID)
	default:
		return 0
	}
	tid := v.u32(slotTID)
	now := fsID{start: v.number[slotStart]}
	for i := range now.ids {
		now.ids[i] = v.u32(slotUID + slot(i))
	}
	before, ok := f[tid]
	if differs { // the other calls set it to the effective one
		if len(f) >= maxFSIDs && !ok {
			for old := range f { // any
				delete(f, old)
				break
			}
		}
		f[tid] = now
		return 0
	}
	if ok {
		delete(f, tid)
		if before == now {
			return 0
		}
	}
	return change
}
