package ecs

import (
	"strconv"
	"syscall"
	"unicode/utf8"

	"github.com/quark-linux/quark"
)

// document is an event in the form of the schema. Its members have the schema's names.
type document struct {
	Timestamp    string        `json:"@timestamp,omitempty"`
	Message      string        `json:"message,omitempty"`
	ECS          version       `json:"ecs"`
	Event        event         `json:"event"`
	Process      *process      `json:"process,omitempty"`
	User         *user         `json:"user,omitempty"`
	Related      *related      `json:"related,omitempty"`
	Container    *containerOf  `json:"container,omitempty"`
	Orchestrator *orchestrator `json:"orchestrator,omitempty"`
	Error        *failure      `json:"error,omitempty"`
	Rule         *rule         `json:"rule,omitempty"`
	Tags         []string      `json:"tags,omitempty"`
	Host         *host         `json:"host,omitempty"`
	Quark        *own          `json:"quark,omitempty"`
}

type rule struct {
	Name []string `json:"name"`
}

type version struct {
	Version string `json:"version"`
}

type event struct {
	Kind     string   `json:"kind"`
	Category []string `json:"category,omitempty"`
	Type     []string `json:"type,omitempty"`
	Action   string   `json:"action"`
	Outcome  string   `json:"outcome,omitempty"`
	Module   string   `json:"module"`
	Dataset  string   `json:"dataset"`
	Created  string   `json:"created,omitempty"`
	Start    string   `json:"start,omitempty"`
	End      string   `json:"end,omitempty"`
}

type process struct {
	PID              uint32   `json:"pid"`
	VPID             uint32   `json:"vpid,omitempty"`
	EntityID         string   `json:"entity_id,omitempty"`
	Name             *string  `json:"name,omitempty"` // a text that is known may be empty
	Executable       *string  `json:"executable,omitempty"`
	Hash             *hash    `json:"hash,omitempty"`
	Args             []string `json:"args,omitempty"`
	ArgsCount        *int     `json:"args_count,omitempty"`
	CommandLine      *string  `json:"command_line,omitempty"`
	EnvVars          []string `json:"env_vars,omitempty"`
	WorkingDirectory *string  `json:"working_directory,omitempty"`
	Start            string   `json:"start,omitempty"`
	End              string   `json:"end,omitempty"`
	ExitCode         *int     `json:"exit_code,omitempty"`
	Interactive      *bool    `json:"interactive,omitempty"`
	TTY              *tty     `json:"tty,omitempty"`
	Thread           *thread  `json:"thread,omitempty"`

	User       *user `json:"user,omitempty"`
	RealUser   *user `json:"real_user,omitempty"`
	SavedUser  *user `json:"saved_user,omitempty"`
	Group      *user `json:"group,omitempty"`
	RealGroup  *user `json:"real_group,omitempty"`
	SavedGroup *user `json:"saved_group,omitempty"`

	Parent        *process   `json:"parent,omitempty"`
	SessionLeader *process   `json:"session_leader,omitempty"`
	GroupLeader   *process   `json:"group_leader,omitempty"`
	EntryLeader   *process   `json:"entry_leader,omitempty"`
	EntryMeta     *entryMeta `json:"entry_meta,omitempty"`
	Same          *bool      `json:"same_as_process,omitempty"`
}

type hash struct {
	SHA256 string `json:"sha256"`
}

// user is a user or a group.
type user struct {
	ID   string `json:"id"`
	Name string `json:"name,omitempty"`
}

type related struct {
	User []string `json:"user,omitempty"`
}

type tty struct {
	CharDevice device `json:"char_device"`
}

type device struct {
	Major uint32 `json:"major"`
	Minor uint32 `json:"minor"`
}

type thread struct {
	ID           uint32        `json:"id,omitempty"`
	Capabilities *capabilities `json:"capabilities,omitempty"`
}

type capabilities struct {
	Permitted []string `json:"permitted,omitempty"`
	Effective []string `json:"effective,omitempty"`
}

type entryMeta struct {
	Type string `json:"type"`
}

type containerOf struct {
	ID      string `json:"id"`
	Runtime string `json:"runtime,omitempty"`
}

type orchestrator struct {
	Type     string   `json:"type,omitempty"`
	Resource resource `json:"resource"`
}

type resource struct {
	Type string `json:"type"`
	ID   string `json:"id"`
}

type failure struct {
	Code    string `json:"code,omitempty"`
	Message string `json:"message"`
}

type host struct {
	Hostname     string           `json:"hostname,omitempty"`
	Name         string           `json:"name,omitempty"`
	ID           string           `json:"id,omitempty"`
	Architecture string           `json:"architecture,omitempty"`
	Boot         *identifier      `json:"boot,omitempty"`
	OS           *operatingSystem `json:"os,omitempty"`
}

type identifier struct {
	ID string `json:"id"`
}

func idOf(id string) *identifier {
	if id == "" {
		return nil
	}
	return &identifier{id}
}

type operatingSystem struct {
	Type   string `json:"type"`
	Kernel string `json:"kernel,omitempty"`
}

// own has the values for which the schema has no field.
type own struct {
	Backend    string   `json:"backend,omitempty"`
	Monotonic  uint64   `json:"time_monotonic,omitempty"`
	Unsure     bool     `json:"unsure,omitempty"`
	Cgroup     string   `json:"cgroup,omitempty"`
	Login      *login   `json:"login,omitempty"`
	PPID       *uint32  `json:"ppid,omitempty"` // of now, if not process.parent
	Signal     string   `json:"exit_signal,omitempty"`
	CoreDumped bool     `json:"core_dumped,omitempty"`
	Inferred   bool     `json:"inferred,omitempty"`
	Tracer     *uint32  `json:"tracer_pid,omitempty"`
	Path       *string  `json:"exec_failed_path,omitempty"`
	Cached     []string `json:"cached,omitempty"`
	Truncated  []string `json:"truncated,omitempty"`
	Gap        *gap     `json:"gap,omitempty"`
	// Bytes has members of process and of this as they are, in base64, which are not UTF-8.
	Bytes map[string][]byte `json:"bytes_b64,omitempty"`
}

// keep notes the bytes of a text, which may be nil, that JSON can't hold.
func (o *own) keep(name string, text *string) {
	if text == nil || utf8.ValidString(*text) {
		return
	}
	if o.Bytes == nil {
		o.Bytes = make(map[string][]byte)
	}
	o.Bytes[name] = []byte(*text)
}

type login struct {
	User    *user  `json:"user"`
	Session uint32 `json:"session"`
}

// gap has a count of 0 if the number is unknown.
type gap struct {
	Cause string  `json:"cause"`
	Count uint64  `json:"count"`
	CPU   *uint32 `json:"cpu,omitempty"`
	From  string  `json:"from"`
	To    string  `json:"to"`
}

// failed fills in the request of a failed exec.
func (d *document) failed(f *quark.FailedExec) {
	d.Error = &failure{Message: "exec failed"}
	if f.Errno != 0 {
		d.Error.Code = decimal(uint32(f.Errno))
		d.Error.Message = "exec failed: " + syscall.Errno(f.Errno).Error()
	}
	if f.PathKnown {
		d.Quark.Path = &f.Path
		d.Quark.keep("exec_failed_path", &f.Path)
		if f.PathCached {
			d.Quark.Cached = append(d.Quark.Cached, "exec_failed_path")
		}
		if f.PathTruncated {
			d.Quark.Truncated = append(d.Quark.Truncated, "exec_failed_path")
		}
	}
}

func decimal(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

// capNames are the capabilities in the order of their numbers; capabilities(7) has them.
var capNames = [...]string{
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_DAC_READ_SEARCH", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_SETGID",
	"CAP_SETUID", "CAP_SETPCAP", "CAP_LINUX_IMMUTABLE", "CAP_NET_BIND_SERVICE", "CAP_NET_BROADCAST", "CAP_NET_ADMIN",
	"CAP_NET_RAW", "CAP_IPC_LOCK", "CAP_IPC_OWNER", "CAP_SYS_MODULE", "CAP_SYS_RAWIO", "CAP_SYS_CHROOT",
	"CAP_SYS_PTRACE", "CAP_SYS_PACCT", "CAP_SYS_ADMIN", "CAP_SYS_BOOT", "CAP_SYS_NICE", "CAP_SYS_RESOURCE",
	"CAP_SYS_TIME", "CAP_SYS_TTY_CONFIG", "CAP_MKNOD", "CAP_LEASE", "CAP_AUDIT_WRITE", "CAP_AUDIT_CONTROL",
	"CAP_SETFCAP", "CAP_MAC_OVERRIDE", "CAP_MAC_ADMIN", "CAP_SYSLOG", "CAP_WAKE_ALARM", "CAP_BLOCK_SUSPEND",
	"CAP_AUDIT_READ", "CAP_PERFMON", "CAP_BPF", "CAP_CHECKPOINT_RESTORE",
}

// names returns the names of a set of capabilities.
func names(set uint64) (out []string) {
	for n := range 64 {
		switch {
		case set>>n&1 == 0:
		case n < len(capNames):
			out = append(out, capNames[n])
		default:
			out = append(out, "CAP_"+strconv.Itoa(n))
		}
	}
	return out
}
