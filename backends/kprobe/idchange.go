package kprobe

import "github.com/quark-linux/quark/engine"

// The values of the second argument of proc_id_connector (linux/cn_proc.h).
const (
	whichUID = 0x4
	whichGID = 0x40
)

// byExec reports whether the task is in an execve, whose EXEC reports the new values: it owns
// signal->cred_guard_mutex. The low bits of a mutex's owner are flags.
func (v *values) byExec() bool { return v.number(slotExecOwner)&^7 == v.number(slotTask) }

// changedNamespaces returns the namespaces that a task changes, and the numbers before and after.
func (v *values) changedNamespaces() (changed engine.NSSet, old, now [len(engine.NSNames)]uint32) {
	for _, ns := range nsMembers {
		i := ns.index
		old[i], now[i] = v.u32(slotOldNS+i), v.u32(ns.slot)
		if old[i] != now[i] && !v.byExec() {
			changed |= 1 << i
		}
	}
	return changed, old, now
}

// changedIDs returns the kind of ids that the task has changed, 0 for an execve.
func (v *values) changedIDs() engine.IDChange {
	if v.byExec() {
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
