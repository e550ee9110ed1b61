package engine

import "fmt"

// NumberText returns the text of a field that is made of numbers, equal for equal
// values; ok is false for a field that is text itself. A start time is in units of
// [ProcStartUnit], which is as exact as /proc has it.
func (t *Task) NumberText(f Field) (text string, ok bool) {
	if of := numberTexts[f]; of != nil {
		return of(t), true
	}
	return "", false
}

var numberTexts = [NumFields]func(*Task) string{
	FieldStart: func(t *Task) string { return fmt.Sprint(t.Start / ProcStartUnit) },
	FieldPPID:  func(t *Task) string { return fmt.Sprint(t.PPID) },
	FieldPGID:  func(t *Task) string { return fmt.Sprint(t.PGID) },
	FieldSID:   func(t *Task) string { return fmt.Sprint(t.SID) },
	FieldUIDs:  func(t *Task) string { return fmt.Sprint(t.Cred.UID, " ", t.Cred.EUID) },
	FieldSUID:  func(t *Task) string { return fmt.Sprint(t.Cred.SUID) },
	FieldGIDs:  func(t *Task) string { return fmt.Sprint(t.Cred.GID, " ", t.Cred.EGID) },
	FieldSGID:  func(t *Task) string { return fmt.Sprint(t.Cred.SGID) },
	FieldCaps: func(t *Task) string {
		c := &t.Caps
		return fmt.Sprintf("%016x %016x %016x %016x %016x", c.Inheritable, c.Permitted, c.Effective, c.Bounding, c.Ambient)
	},
	FieldTTY:            func(t *Task) string { return fmt.Sprintf("%d:%d", t.TTY.Major, t.TTY.Minor) },
	FieldUTSNS:          func(t *Task) string { return fmt.Sprint(t.NS.UTS) },
	FieldIPCNS:          func(t *Task) string { return fmt.Sprint(t.NS.IPC) },
	FieldMntNS:          func(t *Task) string { return fmt.Sprint(t.NS.Mnt) },
	FieldNetNS:          func(t *Task) string { return fmt.Sprint(t.NS.Net) },
	FieldParentSignal:   func(t *Task) string { return fmt.Sprint(t.ParentSignal) },
	FieldBirthParentTID: func(t *Task) string { return fmt.Sprint(t.ParentTID) },
	FieldLogin:          func(t *Task) string { return fmt.Sprint(t.Login.UID, " ", t.Login.Session) },
	FieldExeFile: func(t *Task) string {
		x := &t.ExeFile
		return fmt.Sprintf("%d:%d %d %d %o %d %d %t", x.Major(), x.Minor(), x.Inode, x.Ctime, x.Mode, x.UID, x.GID, x.Removed)
	},
	FieldPIDNS:    func(t *Task) string { return fmt.Sprint(t.NS.PID, " ", t.NSPID) },
	FieldUserNS:   func(t *Task) string { return fmt.Sprint(t.NS.User) },
	FieldCgroupNS: func(t *Task) string { return fmt.Sprint(t.NS.Cgroup) },
	FieldTimeNS:   func(t *Task) string { return fmt.Sprint(t.NS.Time) },
	FieldExit:     func(t *Task) string { return fmt.Sprintf("%#x", t.Exit.WaitStatus) },
}
