package quark

import (
	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/btfhub"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/engine/filter"
	"github.com/quark-linux/quark/internal/names"
)

// Event is one delivered event. The event and its contents are valid until the next call of Get.
//
//	Events   Events          // what happened, such as EventFork|EventExec
//	Process  *Process        // its state after the event
//	Time     uint64          // CLOCK_MONOTONIC nanoseconds of the first part
//	Wall     time.Time       // Time as wall time
//	Parts    []Part          // the joined raw events
//	IDChange IDChange        // which ids changed, for EventIDChange
//	NSChange NSChange        // which namespaces changed, for EventNSChange
//	Thread   bool            // the event is of one thread, see Options.Threads
//	TID, CPU uint32          // thread and CPU of the first part
//	Tracer   struct{ PID, TID uint32 } // for EventPtrace
//	Failed   FailedExec      // for EventExecFailed
//	OldPPID  uint32          // for EventReparent, the parent that ended
//	CgroupChangeBy Identity  // for EventCgroupChange, the process that wrote to cgroup.procs
//	Gap      Gap             // for EventGap: how many events were lost, and why
//	Rules    []string        // the names of the rules that pass the event
//	Unsure   bool            // it is unknown whether the filter matches
//
// Clone returns a copy that stays valid. AppendJSON, AppendDump and Dump print the event.
type Event = engine.Event

// Process is the state of a process after the last event about it. Known lists the fields that hold
// a value. The methods UID, Exe, Args and Duration also return whether the field does.
//
//	PID         uint32
//	Task                         // ids, times, namespaces and more; Known, Cached, Truncated
//	Image                        // Exe, ExecPath, Args, Environ
//	Comm, Cwd, Cgroup string
//	Birth       Birth            // the parent that forked it
//	Usage       Usage            // resources used, set in its EXIT
//	EntryLeader Identity         // the root of its login, service or container
//	EntryType   EntryType        // how EntryLeader was started, such as by sshd
//	Privileges  Privileges       // privileges gained from its executable
//	Marks       Marks            // what a filter has marked; Tags returns the names
//	Exited      bool             // its EXIT was reported
//	Inferred    bool             // its EXIT was lost
//
// Identity returns an identity that is unique on this host, EntityID one that is unique on all
// hosts, AsOf the time of the state, Container the container and Tags the tags that rules set.
// Arguments and Variables yield strings without copying. IsKernelThread reports whether the process
// is a kernel thread. Clone returns a copy that stays valid. AppendJSON and AppendDump print the
// process.
type Process = engine.Process

// Task is the part of a Process that has a fixed size.
//
//	Known, Cached, Truncated Fields   // fields with a value; an earlier value; a cut value
//	PPID, PGID, SID          uint32   // in the initial pid namespace
//	Inherited                         // Cred, Login, Caps, TTY, NS and more
//	Start, StartUnit         uint64   // CLOCK_BOOTTIME nanoseconds, and their precision
//	Exit                     Exit     // how and when it ended
//	ExeFile                  ExeFile
//	Stdio                    [3]Stream
//	NSPID                    uint32   // the pid in the innermost pid namespace
//	ParentSignal, ParentTID  uint32   // sent to the parent at the exit; the thread that forked
type Task = engine.Task

// Stats are the counters of a queue since it was opened. Lost is the number of lost events.
//
//	Insertions, Removals          uint64 // raw events, added to and removed from the buffer
//	Aggregations, NonAggregations uint64 // delivered events: joined, and single
//	Filtered, Unsure              uint64 // events rejected, or undecided, by the filter
//	Late                          uint64 // events delivered after a younger event
//	GarbageCollections            uint64 // processes removed from the table
//	Buffered, Processes           int    // current numbers
//	Backend, Types                string // the source, and the origin of the kernel's types
//	Source                        SourceStats
type Stats = engine.Stats

// Names holds the names of this host's users and groups. User and Group return the name of an id of
// a process, "" if there is none. Ask, if not nil, returns the names that the files do not have.
// Several goroutines may use it.
type Names = names.Names

// NewNames reads /etc/passwd and /etc/group. A lookup reads a changed file again, at most once a
// second.
func NewNames() *Names { return names.New() }

// The other types are aliases too. Their methods and members are documented in their packages, as
// go doc engine.Birth shows.

type (
	Events   = engine.Events   // a set of kinds of event
	Part     = engine.Part     // a raw event of a joined event
	IDChange = engine.IDChange // which ids changed
	NSChange = engine.NSChange // which namespaces changed
	NSSet    = engine.NSSet    // a set of kinds of namespace
	Gap      = engine.Gap      // reports a loss of events in their stream

	Identity     = engine.Identity     // identifies a process: pid and start time
	Birth        = engine.Birth        // the parent that forked a process
	EntryType    = engine.EntryType    // how an entry leader was started
	Container    = engine.Container    // what Process.Container returns
	Inherited    = engine.Inherited    // values inherited from the parent
	Credentials  = engine.Credentials  // user and group ids
	Login        = engine.Login        // login uid and session of the audit subsystem
	Image        = engine.Image        // the program that a process executes
	ExeFile      = engine.ExeFile      // the file of the program
	Stream       = engine.Stream       // standard input, output or error
	StreamType   = engine.StreamType   // the kind of file of a Stream
	Family       = engine.Family       // the address family of a socket
	Usage        = engine.Usage        // resources used, in an EXIT
	Privileges   = engine.Privileges   // privileges gained from the file
	Capabilities = engine.Capabilities // the sets of capabilities(7)
	TTY          = engine.TTY          // a terminal's device number
	Namespaces   = engine.Namespaces   // inode numbers of the namespaces
	Exit         = engine.Exit         // how and when a process ended
	FailedExec   = engine.FailedExec   // the path and the error of a failed exec

	Row    = engine.Row    // a named value of a process
	Field  = engine.Field  // a group of values that are known together
	Fields = engine.Fields // a set of fields, such as Process.Known

	SourceStats = engine.SourceStats // counters: received, and lost by cause
	Loss        = engine.Loss        // a cause of loss
	Clock       = engine.Clock       // turns stamps into wall time
	Host        = engine.Host        // the type of Clock.Host

	Filter      = filter.Filter   // the type of Options.Where
	FilterError = filter.Error    // where an expression or a file of rules is wrong
	Reported    = filter.Reported // the events that a filter may get
	Marks       = engine.Marks    // a filter's marks of a process

	Matrix = engine.Matrix // a matrix of rules for joining: [first kind][next kind]
	Kind   = engine.Kind   // the kind of a raw event
	Join   = engine.Join   // a rule of a Matrix

	Source          = engine.Source          // what New reads from
	Recorder        = engine.Recorder        // the type of Options.Record
	CapabilityTable = engine.CapabilityTable // what a source reports, and how
	Capability      = engine.Capability      // a row of the table
	Origin          = engine.Origin          // how a source obtains something
	Omission        = engine.Omission        // events that a source neither reports nor counts
	Unproven        = engine.Unproven        // exits with an unproven status
	StampError      = engine.StampError      // how far a time stamp is from its event
	Extent          = engine.Extent          // how much of a string is always reported

	BackendSet    = backends.Set         // a set of backends, for Options.Backends
	Attempt       = backends.Attempt     // a backend that could not be used, and why
	OpenError     = backends.Error       // the error of Open if no backend can be used
	OptionError   = engine.OptionError   // the error of Open if an option is wrong
	Exits         = source.Exits         // the exits that are reported
	Environ       = source.Environ       // the variables that are reported
	BTFOptions    = btfhub.Options       // the source of the kernel's types
	EBPFOptions   = source.EBPFOptions   // options of the eBPF backend
	Buffer        = source.Buffer        // the kind of buffer of eBPF programs
	KProbeOptions = source.KProbeOptions // options of the kprobe backend
	CNProcOptions = source.CNProcOptions // options of the cnproc backend
	AuditOptions  = source.AuditOptions  // options of the audit backend
	Enrich        = source.Enrich        // what the proc connector reads from /proc
)

// The ids that an ID_CHANGE can report.
const (
	ChangedSID = engine.ChangedSID
	ChangedUID = engine.ChangedUID
	ChangedGID = engine.ChangedGID

	ChangedPGID = engine.ChangedPGID
)

// The namespaces that an NS_CHANGE can report.
const (
	ChangedUTS    = engine.ChangedUTS
	ChangedIPC    = engine.ChangedIPC
	ChangedMnt    = engine.ChangedMnt
	ChangedNet    = engine.ChangedNet
	ChangedPID    = engine.ChangedPID // of future children
	ChangedUser   = engine.ChangedUser
	ChangedCgroup = engine.ChangedCgroup
	ChangedTime   = engine.ChangedTime
)

// Values of the members of a process.
const (
	LoginUnset = engine.LoginUnset // Login before any login
	BySetUID   = engine.BySetUID   // Process.Privileges
	BySetGID   = engine.BySetGID
	ByFileCaps = engine.ByFileCaps
	ModeSetUID = engine.ModeSetUID // of ExeFile.Mode
	ModeSetGID = engine.ModeSetGID

	InitialUserNamespace = engine.InitialUserNamespace // a Namespaces.User
)

// The kinds of file of a standard stream: values of Stream.Type.
const (
	StreamUnknown = engine.StreamUnknown
	StreamClosed  = engine.StreamClosed
	StreamFile    = engine.StreamFile
	StreamPipe    = engine.StreamPipe
	StreamSocket  = engine.StreamSocket
	StreamTTY     = engine.StreamTTY
	StreamNull    = engine.StreamNull
	StreamMemfd   = engine.StreamMemfd
	StreamOther   = engine.StreamOther
)

// The ways in which an entry leader is started: values of Process.EntryType.
const (
	EntryUnknown   = engine.EntryUnknown
	EntryInit      = engine.EntryInit
	EntryKThread   = engine.EntryKThread
	EntrySSHD      = engine.EntrySSHD
	EntrySSM       = engine.EntrySSM
	EntryContainer = engine.EntryContainer
	EntryTerminal  = engine.EntryTerminal
)

// Rows returns the values of a process with their names in JSON. Do not change the slice.
func Rows() []Row { return engine.Rows() }

// SetOf returns the set of some fields.
func SetOf(fields ...Field) Fields { return engine.SetOf(fields...) }

// ParseKinds returns the kinds of events in a comma-separated list such as "fork,exec", for
// Options.Kinds.
func ParseKinds(list string) (Events, error) { return source.ParseKinds(list) }

// ParseBackend returns the set of the backend with a name, such as "kprobe", for Options.Backends.
func ParseBackend(name string) (BackendSet, error) { return backends.Parse(name) }

// ParseFilter compiles an expression such as `exec and uid != 0 and exe ~ "/tmp/**"`, in the
// language of package [github.com/quark-linux/quark/engine/filter]. The error is a *[FilterError].
func ParseFilter(expression string) (*Filter, error) { return filter.Parse(expression) }

// CompareFilter compiles the term "field op (value, ...)" without any quoting of the values.
func CompareFilter(field, op string, values ...string) (*Filter, error) {
	return filter.Compare(field, op, values...)
}

// ParseRules compiles rules, such as "drop on process.uid 33". The error is a *[FilterError].
func ParseRules(source string) (*Filter, error) { return filter.ParseRules(source) }

// AllOf returns a filter that passes an event if all given filters do. It ignores nil filters.
func AllOf(filters ...*Filter) *Filter { return filter.And(filters...) }

// SignalName returns the name of a signal, such as "SIGKILL".
func SignalName(n int) string { return engine.SignalName(n) }

// The causes of loss.
const (
	LossRingFull   = engine.LossRingFull   // a ring of eBPF or kprobe was full: see RingSize
	LossSocketFull = engine.LossSocketFull // the proc connector's or audit's socket was full
	LossScratch    = engine.LossScratch    // no memory to build the record in
	LossSkipped    = engine.LossSkipped    // the kernel did not run the eBPF program
	LossDecode     = engine.LossDecode     // a record could not be decoded
	LossUnseen     = engine.LossUnseen     // not traced, as on a CPU that came online
	NumLosses      = engine.NumLosses

	AllCPUs = engine.AllCPUs // Gap.CPU of events that can be of any CPU
)

// The rules for joining raw events.
const (
	JoinNever      = engine.JoinNever
	JoinOnce       = engine.JoinOnce       // unless a joined event is of the same kind
	JoinAlways     = engine.JoinAlways     // always
	JoinForkExec   = engine.JoinForkExec   // like JoinOnce, but not after an ID_CHANGE
	JoinBeforeExec = engine.JoinBeforeExec // always, but not after an EXEC
)

// DefaultMatrix joins all events of a short-lived process into one event.
func DefaultMatrix() *Matrix { return engine.DefaultMatrix() }

// MinimalMatrix joins only repeated changes of comm and ids, as Options.MinAgg does.
func MinimalMatrix() *Matrix { return engine.MinimalMatrix() }

// The backends, the values of their options, and what their capability tables hold.
const (
	EBPF         = backends.EBPF
	KProbe       = backends.KProbe
	CNProc       = backends.CNProc
	Audit        = backends.Audit // records of the kernel's audit
	EveryBackend = backends.Every // the default ones, and Audit

	ExitsAll     = source.ExitsAll // for Options.Exits
	ExitsNonzero = source.ExitsNonzero

	EnrichFull = source.EnrichFull // for CNProcOptions.Enrich
	EnrichNone = source.EnrichNone

	BufferAuto = source.BufferAuto // for EBPFOptions.Buffer
	BufferPerf = source.BufferPerf

	OriginNone    = engine.OriginNone
	OriginKernel  = engine.OriginKernel
	OriginProc    = engine.OriginProc
	OriginDerived = engine.OriginDerived

	OmitEnds   = engine.OmitEnds
	OmitIDs    = engine.OmitIDs
	OmitPGID   = engine.OmitPGID
	OmitAny    = engine.OmitAny
	OmitUserNS = engine.OmitUserNS

	UnprovenThreadExit = engine.UnprovenThreadExit
	UnprovenReboot     = engine.UnprovenReboot
	UnprovenLateReboot = engine.UnprovenLateReboot
)

// ErrNothing is returned by Get if no event is old enough to be delivered. Call Block, or wait for
// FD to become readable, then call Get again.
var ErrNothing = engine.ErrNothing
