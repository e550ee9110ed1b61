package engine

// Field names a group of process attributes that is known or unknown as a
// whole. Zero and empty are values: only the flag says that a field is unknown.
type Field uint8

// The fields, and their number.
const (
	FieldStart          Field = iota // start time
	FieldPPID                        // parent's pid
	FieldPGID                        // process group
	FieldSID                         // session
	FieldUIDs                        // real and effective user id
	FieldSUID                        // saved user id
	FieldGIDs                        // real and effective group id
	FieldSGID                        // saved group id
	FieldCaps                        // the five capability sets
	FieldTTY                         // controlling terminal; 0:0 is "none"
	FieldUTSNS                       // namespace inode numbers
	FieldIPCNS                       //
	FieldMntNS                       //
	FieldNetNS                       //
	FieldComm                        // comm of the thread group's leader
	FieldExe                         // absolute path of the executable
	FieldArgs                        // argv, NUL-separated
	FieldCwd                         // working directory
	FieldCgroup                      // cgroup path
	FieldExit                        // wait status and time of the end
	FieldParentSignal                // the signal that the parent gets at the end
	FieldBirthParentTID              // the thread of the parent at birth
	FieldLogin                       // login uid and session of audit(8)
	FieldExeFile                     // the file of the image, as stat(2) has it
	FieldExecPath                    // the path that execve(2) was asked for
	FieldPIDNS                       // pid namespace, and the pid in it
	FieldUserNS                      // namespace inode numbers
	FieldCgroupNS                    //
	FieldTimeNS                      //
	FieldCPUTime                     // time in user mode and in the kernel, of an EXIT
	FieldPeakRSS                     // the most memory that was resident, of an EXIT
	FieldIO                          // bytes read and written, of an EXIT
	FieldEnviron                     // environment, as far as Options asked for it
	FieldEntryLeader                 // entry leader, which the engine derives
	FieldPrivileges                  // what the executable gave the process, derived too
	NumFields           = iota
)

var fieldNames = [NumFields]string{
	"start", "ppid", "pgid", "sid", "uid+euid", "suid", "gid+egid", "sgid", "caps", "tty",
	"uts_ns", "ipc_ns", "mnt_ns", "net_ns", "comm", "exe", "args", "cwd", "cgroup", "exit",
	"parent_signal", "birth_parent_tid", "login", "exe_file", "exec_path", "pid_ns", "user_ns", "cgroup_ns", "time_ns",
	"cpu_time", "peak_rss", "io", "environ", "entry_leader", "privileges",
}

func (f Field) String() string {
	if int(f) < NumFields {
		return fieldNames[f]
	}
	return "unknown_field"
}

// Set returns the set that has f alone.
func (f Field) Set() Fields { return 1 << f }

// Fields is a set of fields.
type Fields uint64

// SetOf returns the set of some fields.
func SetOf(fields ...Field) (s Fields) {
	for _, f := range fields {
		s |= f.Set()
	}
	return s
}

// AllFields has every field that a source can report: all but FieldEntryLeader and
// those that follow it.
const AllFields Fields = 1<<FieldEntryLeader - 1

// Sets that sources report together.
const (
	FieldsIDs = Fields(1<<FieldUIDs | 1<<FieldSUID | 1<<FieldGIDs | 1<<FieldSGID)
	// FieldsNS are the namespaces that a process can change: all but that of its pids.
	FieldsNS    = Fields(1<<FieldUTSNS | 1<<FieldIPCNS | 1<<FieldMntNS | 1<<FieldNetNS | 1<<FieldUserNS | 1<<FieldCgroupNS | 1<<FieldTimeNS)
	FieldsUsage = Fields(1<<FieldCPUTime | 1<<FieldPeakRSS | 1<<FieldIO)
)

// Has reports whether f is in s.
func (s Fields) Has(f Field) bool { return s&(1<<f) != 0 }

// With returns s with f added.
func (s Fields) With(f Field) Fields { return s | 1<<f }

// String joins the names with ",".
func (s Fields) String() string { return string(s.append(nil)) }

// append appends what String returns.
func (s Fields) append(b []byte) []byte {
	start := len(b)
	for f := range Field(NumFields) {
		if !s.Has(f) {
			continue
		}
		if len(b) > start {
			b = append(b, ',')
		}
		b = append(b, f.String()...)
	}
	return b
}
