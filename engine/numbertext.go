package engine

import "fmt"

// NumberText returns the text of a field that is made of numbers, equal for equal
// values; ok is false for a field that is text itself. A start time is in units of
// [ProcStartUnit], which is as exact as /proc has it.
func (t *Task) NumberText(f Field) (text string, ok bool) {
	switch f {
	case FieldStart:
		return fmt.Sprint(t.Start / ProcStartUnit), true
	case FieldPPID:
		return fmt.Sprint(t.PPID), true
	case FieldPGID:
		return fmt.Sprint(t.PGID), true
	case FieldSID:
		return fmt.Sprint(t.SID), true
	case FieldUIDs:
		return fmt.Sprint(t.Cred.UID, " ", t.Cred.EUID), true
	case FieldSUID:
		return fmt.Sprint(t.Cred.SUID), true
	case FieldGIDs:
		return fmt.Sprint(t.Cred.GID, " ", t.Cred.EGID), true
	case FieldSGID:
		return fmt.Sprint(t.Cred.SGID), true
	case FieldCaps:
		c := &t.Caps
		return fmt.Sprintf("%016x %016x %016x %016x %016x", c.Inheritable, c.Permitted, c.Effective, c.Bounding, c.Ambient), true
	case FieldTTY:
		return fmt.Sprintf("%d:%d", t.TTY.Major, t.TTY.Minor), true
	case FieldUTSNS:
		return fmt.Sprint(t.NS.UTS), true
	case FieldIPCNS:
		return fmt.Sprint(t.NS.IPC), true
	case FieldMntNS:
		return fmt.Sprint(t.NS.Mnt), true
	case FieldNetNS:
		return fmt.Sprint(t.NS.Net), true
	case FieldExit:
		return fmt.Sprintf("%#x", t.Exit.WaitStatus), true
	}
	return "", false
}
