package engine

import "time"

// Source is a kernel interface that reports processes. Only one goroutine at a time calls its
// methods.
type Source interface {
	// Name returns the short name: "ebpf", "kprobe", "cnproc" ...
	Name() string

	// Capabilities returns which values this source reports on this kernel, and how.
	Capabilities() *CapabilityTable

	// Populate moves the kernel's queued events to the sink until all are moved or the sink has
	// no room. It never blocks. An error ends the source; loss is no error and is counted in
	// Stats. After io.EOF, with which a recording ends, the engine delivers the events it
	// holds, as after Drain.
	Populate(to Sink) error

	// FD returns a descriptor that becomes readable when Populate should be called, provided
	// that Arm was called after the last Populate. If it is -1, the source is polled at
	// intervals.
	FD() int

	// Arm prepares a wait for FD.
	//
	//  1. Arm(true), if the engine holds no event: FD becomes readable with the next event.
	//  2. Arm(false): FD may stay unreadable until a ring is filled to its watermark, or a file
	//     to be read is about to vanish. Events may wait in the kernel for some milliseconds.
	//  3. It returns false if something is queued that FD does not signal: then call Populate
	//     instead of waiting.
	Arm(idle bool) bool

	// Stats returns the counters since the source was opened.
	Stats() (SourceStats, error)

	// Close detaches from the kernel and removes all that it attached. A second call returns
	// nil.
	Close() error
}

// Sink takes the events of a source. [Buffer] is the engine's sink.
type Sink interface {
	// Room returns how many more events can be inserted. Populate stops at 0: the remaining
	// events wait in the kernel, and the kernel counts those it has to drop.
	Room() int

	// Reserve returns an empty event to fill. The source passes it to Insert or Release.
	Reserve() *RawEvent

	// Insert takes the event over.
	Insert(*RawEvent)

	// Release takes an event back that is not to be inserted.
	Release(*RawEvent)
}

// SourceStats are a source's counters. Produced = handed to the engine + still
// queued in the kernel + the sum of Lost.
type SourceStats struct {
	Produced uint64 // events that the kernel reported or tried to report
	Lost     [NumLosses]uint64
	// Bound is set while Lost is only a lower bound: the source detected a loss, but learns the
	// number of lost events only from later events, or never. For a CPU that came online, it
	// never learns the number of earlier events.
	Bound bool
	// Unread is the number of events without fields from /proc: the events filled half of the
	// sink and could not wait for the read. Events of an orderly end are not counted.
	Unread uint64
	// Blocked is the number of processes that could not be read from /proc in time, because
	// their address space was locked. Their arguments and environment are unknown.
	Blocked uint64
}

// LostTotal is the sum over all causes.
func (s *SourceStats) LostTotal() (n uint64) {
	for _, l := range s.Lost {
		n += l
	}
	return n
}

// Loss is a cause for which an event was lost.
type Loss uint8

// The causes of loss, and their number.
const (
	LossRingFull   Loss = iota // no room in the ring between kernel and user space
	LossSocketFull             // no room in the socket's receive buffer
	LossScratch                // the kernel side had no memory for the record
	// the kernel skipped the program, as it or another part of eBPF was active on that CPU
	LossSkipped
	LossDecode // the record was invalid
	// not observed: a CPU came online, the kernel made no events, or the source polls
	LossUnseen
	NumLosses = iota
)

var lossNames = [NumLosses]string{"ring_full", "socket_full", "scratch", "skipped", "decode", "unseen"}

func (l Loss) String() string { return nameOf(l, lossNames[:]...) }

// Origin is the way in which a source obtains a value.
type Origin uint8

const (
	OriginNone    Origin = iota // not at all
	OriginKernel                // the kernel reports it with the event
	OriginProc                  // read from /proc right after the event
	OriginDerived               // computed from other events
)

func (o Origin) String() string { return nameOf(o, "none", "kernel", "proc", "derived") }

// Capability is one row of a capability table.
type Capability struct {
	Origin Origin
	// Via names the hook or file; where Origin is OriginNone it is the reason.
	Via string
	// At is, for a field, the set of events that report it.
	At Events
	// Partial is, for a field, the events of At that can leave it unknown. For a kind it is not
	// 0 if some of its events are not reported: Via names them.
	Partial Events
	// Omits is, for a kind, the classes of events that are not reported. If Partial is set,
	// events of 32-bit programs are not reported either.
	Omits Omission
	// Whole is, for a text, the length up to which it is never truncated. A longer text may be
	// truncated, but not to less than Whole. The zero value means never truncated.
	Whole Extent
	// Unproven is, for FieldExit, the classes of exits whose reported status may be wrong.
	Unproven Unproven
}

// Brings reports whether every event of a kind has the field from the kernel.
func (c *Capability) Brings(k Events) bool {
	return c.Origin == OriginKernel && c.At&^c.Partial&k != 0
}

// Omission is a set of classes of events that a source neither reports nor counts as lost.
type Omission uint8

// The classes of omitted events.
const (
	OmitEnds   Omission = 1 << iota // EXIT by a signal or exit(2), or after threads
	OmitIDs                         // ID_CHANGE but for setsid(2)
	OmitAny                         // any event of the kind
	OmitUserNS                      // NS_CHANGE of the user namespace
	OmitPGID                        // ID_CHANGE of the process group by setpgid(2)
)

// Unproven is a set of classes of exits whose status the kernel's event does not prove.
type Unproven uint8

// The classes of exits.
const (
	// UnprovenThreadExit is exit(2) of the last thread, if a fatal signal arrives meanwhile, or
	// if a kernel thread of the process, for io_uring, ends after it.
	UnprovenThreadExit Unproven = 1 << iota
	// UnprovenReboot is reboot(2) in a pid namespace with an unread first process.
	UnprovenReboot
	// UnprovenLateReboot is reboot(2) by another process of a pid namespace whose first process
	// is already exiting: the kernel sets the status after the event.
	UnprovenLateReboot
)

// StampError bounds the error of an event's time stamp, in ns. The zero value is an exact stamp.
type StampError struct {
	Early, Late uint64
	// Ends is the largest delay between the moment when the parent can detect the end and the
	// time stamp of the EXIT.
	Ends uint64
}

// Extent is a length of a text or a path. Its members are bounds, and the smallest bound counts. 0
// means no bound.
type Extent struct {
	Bytes int
	Names int // for a path: number of directories and the file
}

// CapabilityTable describes which values a source reports on the running kernel.
type CapabilityTable struct {
	Kinds  [NumKinds]Capability
	Fields [NumFields]Capability
	// Types is the origin of the offsets in the kernel's types: a file, or a kernel of the
	// archive; "" if the source needs none.
	Types string
	// Stamps is the error of the events' stamps.
	Stamps StampError
	// SameIDs is set if ID_CHANGE also reports calls that set ids to their old values.
	SameIDs bool
	// IDsBefore is set if an EXEC has the ids from before the exec, see [RawEvent.Before].
	IDsBefore bool
	// SplitRecords is set if the texts of an event are in separate records: after a loss of
	// these the event is delivered without the texts.
	SplitRecords bool
	// Notes are facts that belong to no row, such as why a faster method is not used.
	Notes []string
}

// Holder is a [Source] that holds events back after Populate, until it has read the next events.
// Held returns the time of the oldest held event; ok is false if no event is held. While the buffer
// is not full, the engine waits for held events, to order and join them with other events. The
// source has to insert a held event in a bounded time, even if no other events come.
type Holder interface {
	Held() (oldest uint64, ok bool)
}

// Watcher is a [Source] with checks that FD does not signal. Interval is the maximum time between
// calls of Populate; 0 means that FD suffices.
type Watcher interface{ Interval() time.Duration }

// Timekeeper is a [Source] with its own clock for the times of its events, such as a recording or a
// test, whose events are not from this machine.
type Timekeeper interface{ Clock() *Clock }

// Scanner is a [Source] that has the processes from before its first event. Scan calls f with each,
// for [Engine.Learn]. f must not keep the event.
type Scanner interface {
	Scan(f func(*RawEvent) error) error
}
