package quark

import (
	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/btfhub"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/engine/filter"
)

// Event is one delivered event. It and its contents are valid until the next call of Get.
//
//	Events   Events          // what happened, such as EventFork|EventExec
//	Process  *Process        // to which process, as it is after the event
//	Time     uint64          // of the first part, in CLOCK_MONOTONIC nanoseconds
//	Wall     time.Time       // the same as wall time
//	Parts    []Part          // the joined raw events
//	IDChange IDChange        // which ids changed, for EventIDChange
//	Thread   bool            // only one thread is concerned, see Options.Threads
//	TID, CPU uint32          // where the first part happened
//	Tracer   struct{ PID, TID uint32 } // for EventPtrace
//	Failed   FailedExec      // for EventExecFailed
//	Gap      Gap             // for EventGap: how many events were lost, and why
//	Rules    []string        // the names of the rules that let it pass
//	Unsure   bool            // it is unknown whether the filter matches
//
// Clone keeps an event. AppendJSON, AppendDump and Dump print one.
type Event = engine.Event

// Process is the state of a process after the last event about it. Known lists the fields that hold
// a value: the methods UID, Exe, Args and Duration return whether it does.
//
//	PID         uint32
//	Task                         // ids, times, namespaces and more; Known, Cached, Truncated
//	Image                        // Exe, ExecPath, Args, Environ
//	Comm, Cwd, Cgroup string
//	Birth       Birth            // the parent that forked it
//	Usage       Usage            // what it used, in the event of its EXIT
//	EntryLeader Identity         // the process by which it came in,
//	EntryType   EntryType        // and by which way
//	Privileges  Privileges       // what its executable gave it
//	Marks       Marks            // what a filter notes; Tags returns the names
//	Exited      bool             // its end was reported
//	Inferred    bool             // its EXIT was lost
//
// Identity returns its name for good on this host, EntityID on all hosts, AsOf the time of its
// state, Container its container and Tags what rules call it. Arguments and Variables yield texts
// without a copy. IsKernelThread reports whether it is one. Clone keeps it. AppendJSON and
// AppendDump print it.
type Process = engine.Process

// Task is the part of a Process that has a fixed size.
//
//	Known, Cached, Truncated Fields   // what has a value; an earlier one; a cut one
//	PPID, PGID, SID          uint32   // in the initial pid namespace
//	Inherited                         // Cred, Login, Caps, TTY, NS and more
//	Start, StartUnit         uint64   // CLOCK_BOOTTIME nanoseconds, and their precision
//	Exit                     Exit     // how and when it ended
//	ExeFile                  ExeFile
//	NSPID                    uint32   // in its own pid namespace
//	ParentSignal, ParentTID  uint32   // for the parent at its end; the thread that forked it
type Task = engine.Task

// Stats are the counters of a queue since it was opened. Lost is the number of lost events.
//
//	Insertions, Removals          uint64 // raw events that came in, and went out
//	Aggregations, NonAggregations uint64 // delivered events, joined and not
//	Filtered, Unsure              uint64 // by the filter: left out, undecided
//	Late                          uint64 // delivered after a younger one
//	GarbageCollections            uint64 // forgotten processes
//	Buffered, Processes           int    // now
//	Backend, Types                string // the source, and where it has the kernel's types from
//	Source                        SourceStats
type Stats = engine.Stats

// The other types are aliases too. Their methods and members are documented in their packages, as
// go doc engine.Birth shows.

type (
	Events   = engine.Events   // a set of kinds of event
	Part     = engine.Part     // one of the raw events that were joined
	IDChange = engine.IDChange // which ids changed
	Gap      = engine.Gap      // events that were lost, in the stream of events

	Identity     = engine.Identity     // a process for good: pid and start time
	Birth        = engine.Birth        // the parent that forked a process
	EntryType    = engine.EntryType    // by which way a process came in
	Container    = engine.Container    // what Process.Container returns
	Inherited    = engine.Inherited    // what it has from its parent
	Credentials  = engine.Credentials  // user and group ids
	Login        = engine.Login        // by which login it came in
	Image        = engine.Image        // the program that it executes
	ExeFile      = engine.ExeFile      // the file of that
	Usage        = engine.Usage        // resources used, at the end
	Privileges   = engine.Privileges   // what that gave it
	Capabilities = engine.Capabilities // the sets of capabilities(7)
	TTY          = engine.TTY          // the number of a terminal
	Namespaces   = engine.Namespaces   // their inode numbers
	Exit         = engine.Exit         // how and when a process ended
	FailedExec   = engine.FailedExec   // what an exec that failed asked for

	Row    = engine.Row    // one value of a process, by its name
	Field  = engine.Field  // a group of attributes that is known as a whole
	Fields = engine.Fields // a set of fields, such as Process.Known

	SourceStats = engine.SourceStats // counters: received, and lost by cause
	Loss        = engine.Loss        // a cause of loss
	Clock       = engine.Clock       // turns stamps into wall time
	Host        = engine.Host        // what Clock.Host is

	Filter      = filter.Filter   // what Options.Where is
	FilterError = filter.Error    // where an expression or a file of rules is wrong
	Reported    = filter.Reported // the events that there are for a filter
	Marks       = engine.Marks    // what a filter notes of a process

	Matrix = engine.Matrix // rules of joining, by kinds: Matrix[first][next]
	Kind   = engine.Kind   // the kind of a raw event
	Join   = engine.Join   // a rule

	Source          = engine.Source          // what New reads from
	Recorder        = engine.Recorder        // what Options.Record is
	CapabilityTable = engine.CapabilityTable // what a source reports, and how
	Capability      = engine.Capability      // a row of the table
	Origin          = engine.Origin          // how a source obtains something
	Omission        = engine.Omission        // events that a source neither reports nor counts
	Unproven        = engine.Unproven        // ends with an unproven status
	StampError      = engine.StampError      // how far a stamp is from its event
	Extent          = engine.Extent          // how much of a text is known in any case

	BackendSet    = backends.Set         // a set of backends, for Options.Backends
	Attempt       = backends.Attempt     // a backend that could not be used, and why
	OpenError     = backends.Error       // the error of Open if no backend can be used
	OptionError   = engine.OptionError   // the error of Open if an option is wrong
	Exits         = source.Exits         // the ends that are reported
	Environ       = source.Environ       // the variables that are reported
	BTFOptions    = btfhub.Options       // where the kernel's types are found
	EBPFOptions   = source.EBPFOptions   // of the eBPF backend alone
	Buffer        = source.Buffer        // how their records come to user space
	KProbeOptions = source.KProbeOptions // of the kprobe backend alone
	CNProcOptions = source.CNProcOptions // of the proc connector alone
	AuditOptions  = source.AuditOptions  // of the kernel's audit alone
	Enrich        = source.Enrich        // what the proc connector reads from /proc
)

// The ids of an ID_CHANGE.
const (
	ChangedSID = engine.ChangedSID
	ChangedUID = engine.ChangedUID
	ChangedGID = engine.ChangedGID
)

// Values of the members of a process.
const (
	LoginUnset = engine.LoginUnset // value of Login before any login
	BySetUID   = engine.BySetUID   // Process.Privileges
	BySetGID   = engine.BySetGID
	ByFileCaps = engine.ByFileCaps
	ModeSetUID = engine.ModeSetUID // of ExeFile.Mode
	ModeSetGID = engine.ModeSetGID

	InitialUserNamespace = engine.InitialUserNamespace // a Namespaces.User
)

// The ways by which processes come in: the types of Process.EntryLeader.
const (
	EntryUnknown   = engine.EntryUnknown
	EntryInit      = engine.EntryInit
	EntryKThread   = engine.EntryKThread
	EntrySSHD      = engine.EntrySSHD
	EntrySSM       = engine.EntrySSM
	EntryContainer = engine.EntryContainer
	EntryTerminal  = engine.EntryTerminal
)

// Rows returns the values of a process with their names, as JSON has them. Do not change them.
func Rows() []Row { return engine.Rows() }

// The ends that Options.Exits selects.
const (
	ExitsAll     = source.ExitsAll
	ExitsNonzero = source.ExitsNonzero
)

// SetOf returns the set of some fields.
func SetOf(fields ...Field) Fields { return engine.SetOf(fields...) }

// ParseKinds returns the kinds of a list of names with commas, such as "fork,exec", for
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

// AllOf returns a filter that lets an event pass if each of some does, except nil ones.
func AllOf(filters ...*Filter) *Filter { return filter.And(filters...) }

// SignalName returns the name of a signal, such as "SIGKILL".
func SignalName(n int) string { return engine.SignalName(n) }

// The causes of loss.
const (
	LossRingFull   = engine.LossRingFull   // of eBPF and kprobe: see RingSize
	LossSocketFull = engine.LossSocketFull // of the proc connector
	LossScratch    = engine.LossScratch    // no memory to build the record in
	LossSkipped    = engine.LossSkipped    // the kernel did not run the eBPF program
	LossDecode     = engine.LossDecode     // the record made no sense
	LossUnseen     = engine.LossUnseen     // not watched, as on a CPU that came online
	NumLosses      = engine.NumLosses

	AllCPUs = engine.AllCPUs // a Gap's CPU, if it can be any
)

// The rules by which raw events are joined.
const (
	JoinNever      = engine.JoinNever
	JoinOnce       = engine.JoinOnce       // unless one of the kind has joined already
	JoinAlways     = engine.JoinAlways     // any number
	JoinForkExec   = engine.JoinForkExec   // once, and not after an ID_CHANGE
	JoinBeforeExec = engine.JoinBeforeExec // any number, and not after an EXEC
)

// DefaultMatrix joins the whole life of a short process into one event.
func DefaultMatrix() *Matrix { return engine.DefaultMatrix() }

// MinimalMatrix joins only repeated changes of comm and ids, as Options.MinAgg does.
func MinimalMatrix() *Matrix { return engine.MinimalMatrix() }

// The backends, and how a source obtains something.
const (
	EBPF         = backends.EBPF
	KProbe       = backends.KProbe
	CNProc       = backends.CNProc
	Audit        = backends.Audit // records of the kernel's audit
	EveryBackend = backends.Every // also those that Open tries only if they are named

	EnrichFull = source.EnrichFull // for CNProcOptions.Enrich
	EnrichNone = source.EnrichNone

	BufferAuto = source.BufferAuto // for EBPFOptions.Buffer
	BufferPerf = source.BufferPerf

	OriginNone    = engine.OriginNone
	OriginKernel  = engine.OriginKernel
	OriginProc    = engine.OriginProc
	OriginDerived = engine.OriginDerived

	OmitEnds = engine.OmitEnds
	OmitIDs  = engine.OmitIDs
	OmitAny  = engine.OmitAny

	UnprovenSignal = engine.UnprovenSignal
	UnprovenReboot = engine.UnprovenReboot

	UnprovenLateReboot = engine.UnprovenLateReboot
)

// ErrNothing is returned by Get while no event is old enough. Call Block, or wait for FD to become
// readable, then call Get again.
var ErrNothing = engine.ErrNothing
