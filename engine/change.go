package engine

// FieldChange says how the value of a field can change during a process's life.
type FieldChange struct {
	// By is the set of kinds of event that can change it. A source that does not report
	// one of them cannot tell a change.
	By Events
	// Unseen is how it can change without an event; "" if it cannot.
	Unseen string
}

// FieldChanges is the rule by which known fields become cached: a field that an event
// does not bring is cached after it if it can change unseen, or by a kind of event that
// the source does not report.
//
// Exe is the path as it was when the image was executed. Args is what the process
// was started with, which stays true when the process overwrites its arguments; so is Environ.
var FieldChanges = [NumFields]FieldChange{
	FieldPPID:   {Unseen: "the parent ends"},
	FieldPGID:   {By: EventIDChange, Unseen: "setpgid(2)"},
	FieldSID:    {By: EventIDChange},
	FieldUIDs:   {By: EventIDChange | EventExec},
	FieldSUID:   {By: EventIDChange | EventExec},
	FieldGIDs:   {By: EventIDChange | EventExec},
	FieldSGID:   {By: EventIDChange | EventExec},
	FieldCaps:   {By: EventIDChange | EventExec, Unseen: "capset(2), prctl(2)"},
	FieldTTY:    {By: EventIDChange, Unseen: "ioctl(2) TIOCSCTTY and TIOCNOTTY, vhangup(2), the session leader ends"},
	FieldUTSNS:  {Unseen: "unshare(2), setns(2)"},
	FieldIPCNS:  {Unseen: "unshare(2), setns(2)"},
	FieldMntNS:  {Unseen: "unshare(2), setns(2)"},
	FieldNetNS:  {Unseen: "unshare(2), setns(2)"},
	FieldComm:   {By: EventSetProcTitle | EventExec},
	FieldExe:    {By: EventExec, Unseen: "rename(2) or unlink(2) of the executable, prctl(2) PR_SET_MM_EXE_FILE"},
	FieldArgs:   {By: EventExec},
	FieldCwd:    {Unseen: "chdir(2), rename(2) of the directory"},
	FieldCgroup: {Unseen: "a write to cgroup.procs"},

	FieldExeFile:      {By: EventExec, Unseen: "chmod(2), chown(2), link(2), rename(2), unlink(2), a write to a file of several names, prctl(2)"},
	FieldExecPath:     {By: EventExec},
	FieldLogin:        {Unseen: "a write to /proc/PID/loginuid"},
	FieldParentSignal: {By: EventExec, Unseen: "the parent ends"},
	FieldUserNS:       {Unseen: "unshare(2), setns(2)"},
	FieldCgroupNS:     {Unseen: "unshare(2), setns(2)"},
	FieldTimeNS:       {By: EventExec, Unseen: "setns(2)"},
	FieldEnviron:      {By: EventExec},
	FieldEntryLeader:  {By: EventExec},
	FieldPrivileges:   {By: EventExec},
}

// ChangeUnseen are the fields that can change without an event of any kind.
const ChangeUnseen = FieldsNS | Fields(1<<FieldPPID|1<<FieldPGID|1<<FieldCaps|1<<FieldTTY|1<<FieldExe|1<<FieldCwd|1<<FieldCgroup|1<<FieldParentSignal|1<<FieldLogin|1<<FieldExeFile)

// constant are the fields that never change in a life.
const constant = Fields(1<<FieldStart | 1<<FieldExit | 1<<FieldBirthParentTID | 1<<FieldPIDNS)

// ChangedUnseen returns the fields that can change without an event that a source with
// this table always reports.
func (t *CapabilityTable) ChangedUnseen() Fields {
	var reported Events
	for k := range t.Kinds {
		if t.all(Kind(k)) {
			reported |= Kind(k).Events()
		}
	}
	unseen := ChangeUnseen
	for f, c := range FieldChanges {
		if c.By&^reported != 0 {
			unseen |= Field(f).Set()
		}
	}
	return unseen
}

// all reports whether the source reports every event of a kind.
func (t *CapabilityTable) all(k Kind) bool {
	return t.Kinds[k].Origin != OriginNone && t.Kinds[k].Partial == 0
}
