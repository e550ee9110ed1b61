package kprobe

import "github.com/quark-linux/quark/engine"

// The values of the second argument of proc_id_connector (linux/cn_proc.h).
const (
	whichUID = 0x4
	whichGID = 0x40
)

// changedIDs returns the kind of ids that the task has changed. It returns 0 for an execve, whose
// EXEC reports the new ids: a task that executes owns signal->cred_guard_mutex. The low bits of a
// mutex's owner are flags.
func (v *values) changedIDs() engine.IDChange {
	if v.number(slotExecOwner)&^7 == v.number(slotTask) {
		return 0
	}
	switch v.u32(slotWhichID) {
	case whichUID:
		return engine.ChangedUID
	case whichGID:
		return engine.ChangedGID
	}
	return 0
}
