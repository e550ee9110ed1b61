package engine

// Task is the fixed-size part of the state of a process. Sources fill it in a [RawEvent], the
// process table keeps it in a [Process]. A member may be read only if its field is in Known.
type Task struct {
	Known     Fields // the fields that hold a value
	Truncated Fields // known fields with a cut value

	// Cached has the known fields whose values may differ at the event: they are from an
	// earlier event, or from /proc at another time. All other known values are exact at the
	// event. In a RawEvent a source sets Cached for values that it cannot prove exact, and for
	// fields outside Known whose earlier values may be outdated. [FieldChanges] lists the
	// fields that the engine adds.
	Cached Fields

	// ParentSignal is the signal that the parent gets when the process ends, 0 for none. It is
	// the signal given to clone(2); an exec sets it to SIGCHLD.
	ParentSignal uint32

	// NSPID is the pid in the process's own pid namespace, NS.PID, as getpid(2) returns it.
	NSPID uint32

	// Start is the start time of the process, in nanoseconds of CLOCK_BOOTTIME: the kernel's
	// start_boottime, rounded down to a multiple of StartUnit. StartUnit is 1 if the value
	// comes from the kernel and [ProcStartUnit] if it comes from /proc.
	Start     uint64
	StartUnit uint64

	PPID, PGID, SID uint32 // in the initial pid namespace

	// ParentTID is the thread of the parent at birth: the thread that called fork, except with
	// CLONE_PARENT. It never changes.
	ParentTID uint32

	ExeFile ExeFile
	Stdio   [3]Stream // standard input, output and error, at the EXEC
	Exit    Exit

	Inherited
}

// Inherited has the values that a child inherits and most processes never change.
type Inherited struct {
	Cred  Credentials
	Login Login
	Caps  Capabilities
	TTY   TTY
	NS    Namespaces

	NoNewPrivs uint32 // 1 if no exec gives privileges
	Seccomp    uint32 // the mode; 2 for a filter, also while one is ending the process
}

// ProcStartUnit is the precision in nanoseconds of a start time from
// /proc/PID/stat: one tick of USER_HZ, which is 100 on amd64 and arm64.
const ProcStartUnit = 10_000_000

// Credentials are user and group ids in the initial user namespace.
type Credentials struct {
	UID, EUID, SUID uint32
	GID, EGID, SGID uint32
}

// Login identifies the login that a process belongs to, as recorded by the kernel's audit. A child
// inherits it. A program that logs a user in sets it, without an event.
type Login struct {
	UID     uint32 // in the initial user namespace; LoginUnset before any login
	Session uint32 // number of the login since the boot; LoginUnset likewise
}

// LoginUnset is the uid and the session of a process that belongs to no login.
const LoginUnset = 1<<32 - 1

// ExeFile is the file of the image that a process executes, with its stat(2) values at the EXEC.
// Inode and Ctime show whether the path still names this file.
type ExeFile struct {
	Inode uint64
	Ctime int64 // last change of the file or of its attributes, in nanoseconds since 1970

	// Device is the device of the file system, as in st_dev. The kernel's value differs from
	// the value of stat(2) on btrfs and on an overlay of several file systems.
	Device   uint32
	UID, GID uint32 // the owner, in the initial user namespace
	Mode     uint16 // type, set-id bits and permissions, as st_mode has them
	// Removed is set if the file has no name: its last name was removed, or the file was made
	// by memfd_create(2) or with O_TMPFILE.
	Removed bool
}

// Bits of ExeFile.Mode with which an exec sets the effective ids to the ids of the file's owner.
const (
	ModeSetUID = 0o4000
	ModeSetGID = 0o2000
)

// Major returns the device's major number.
func (x *ExeFile) Major() uint32 { return majorOf(x.Device) }

// Minor returns the device's minor number.
func (x *ExeFile) Minor() uint32 { return minorOf(x.Device) }

func majorOf(device uint32) uint32 { return device >> 8 & 0xfff }
func minorOf(device uint32) uint32 { return device>>12&0xfff00 | device&0xff }

// Capabilities are the five capability sets of capabilities(7) as bit masks.
type Capabilities struct {
	Inheritable, Permitted, Effective, Bounding, Ambient uint64
}

// TTY is the device number of the controlling terminal, 0:0 for none.
type TTY struct{ Major, Minor uint32 }

// Namespaces are the inode numbers of namespaces as /proc/PID/ns shows them. PID never changes:
// unshare(2) and setns(2) choose it for future children. Likewise Time is not the namespace of
// future children. Since Linux 6.2 a process enters that namespace with its next exec.
type Namespaces struct{ UTS, IPC, Mnt, Net, PID, User, Cgroup, Time uint32 }

// Exit is how and when a thread group ended.
type Exit struct {
	WaitStatus int32  // as wait(2) returns it
	Time       uint64 // CLOCK_MONOTONIC nanoseconds
}

// Code returns the exit code: bits 8 to 15 of the wait status. It is 0 if a signal ended the
// process: see Signal.
func (e Exit) Code() int { return int(e.WaitStatus>>8) & 0xff }

// Signal returns the number of the signal that ended the process, or 0.
func (e Exit) Signal() int { return int(e.WaitStatus) & 0x7f }

// CoreDumped reports whether the kernel wrote a core dump.
func (e Exit) CoreDumped() bool { return e.WaitStatus&0x80 != 0 }

// sameStart reports whether two known start times, each rounded down to its own unit, may be equal.
func (t *Task) sameStart(o *Task) bool { return sameStart(t.Start, t.StartUnit, o.Start, o.StartUnit) }

func (p *process) sameStart(start, unit uint64) bool {
	return sameStart(p.Start, uint64(p.StartUnit), start, unit)
}

func sameStart(a, unitA, b, unitB uint64) bool {
	unit := max(unitA, unitB, 1)
	return a == b || a/unit == b/unit
}
