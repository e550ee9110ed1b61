// Package fieldtext writes the fields of a task that are numbers as text, equal for
// equal ones, to compare what a source says with the truth.
package fieldtext

import (
	"fmt"

	"github.com/quark-linux/quark/engine"
)

// Number returns the text of a field; ok is false for one that is text itself. A
// start time is in units of [engine.ProcStartUnit], as exact as /proc has it.
func Number(t *engine.Task, f engine.Field) (text string, ok bool) {
	switch f {
	case engine.FieldStart:
		return fmt.Sprint(t.Start / engine.ProcStartUnit), true
	case engine.FieldPPID:
		return fmt.Sprint(t.PPID), true
	case engine.FieldPGID:
		return fmt.Sprint(t.PGID), true
	case engine.FieldSID:
		return fmt.Sprint(t.SID), true
	case engine.FieldUIDs:
		return fmt.Sprint(t.Cred.UID, " ", t.Cred.EUID), true
	case engine.FieldSUID:
		return fmt.Sprint(t.Cred.SUID), true
	case engine.FieldGIDs:
		return fmt.Sprint(t.Cred.GID, " ", t.Cred.EGID), true
	case engine.FieldSGID:
		return fmt.Sprint(t.Cred.SGID), true
	case engine.FieldCaps:
		c := &t.Caps
		return fmt.Sprintf("%016x %016x %016x %016x %016x", c.Inheritable, c.Permitted, c.Effective, c.Bounding, c.Ambient), true
	case engine.FieldTTY:
		return fmt.Sprintf("%d:%d", t.TTY.Major, t.TTY.Minor), true
	case engine.FieldUTSNS:
		return fmt.Sprint(t.NS.UTS), true
	case engine.FieldIPCNS:
		return fmt.Sprint(t.NS.IPC), true
	case engine.FieldMntNS:
		return fmt.Sprint(t.NS.Mnt), true
	case engine.FieldNetNS:
		return fmt.Sprint(t.NS.Net), true
	case engine.FieldExit:
		return fmt.Sprintf("%#x", t.Exit.WaitStatus), true
	}
	return "", false
}
