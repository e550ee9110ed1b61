package engine

import "time"

// Source is a kernel interface that reports the activity of processes. All methods are called by
// one goroutine at a time.
type Source interface {
	// Name is the short name: "ebpf", "kprobe", "cnproc" ...
	Name() string

	// Capabilities describes which values this source reports on this kernel, and how.
	Capabilities() *CapabilityTable

	// Populate moves the kernel's queued events to the sink until all are moved or the sink has
	// no room. It never blocks. An error ends the source; loss is no error and is counted in
	// Stats. After io.EOF, with which a recording ends, the engine delivers the events it
	// holds, as after Drain.
	Populate(to Sink) error

	// FD is a descriptor that polls readable when Populate should be called,
	// provided that Arm was called after the last Populate. -1: none; the source is
	// then polled at intervals.
	FD() int

	// Arm prepares the wait for FD that follows.
	//
	//  1. Arm(true), if the engine holds no event: FD becomes readable with the next event.
	//  2. Arm(false): FD may stay silent until a ring is filled to its watermark, or something
	//     to be read is about to go away. Events may wait in the kernel for some milliseconds.
	//  3. It returns false if something is queued that FD does not signal: then call Populate
	//     instead of waiting.
	Arm(idle bool) bool

	// Stats returns the counters since the source was opened.
	Stats() (SourceStats, error)

	// Close detaches from the kernel and removes all that it attached. A second call returns
	// nil.
	Close() error
}

// Sink takes the events of a source. The engine's is its [Buffer].
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
	// Bound is set while Lost is only a lower bound: the source knows of a loss, but learns its
	// size only with later events, or never. It never learns how many events a CPU made before
	// it was seen to have come online.
	Bound bool
	// Unread is how many events lack the fields from /proc because they filled half of the sink
	// and could not wait until it was read. Events of an orderly end are not counted.
	Unread uint64
	// Blocked is how many processes could not be read from /proc in time, as their address
	// space was locked: their arguments and environment are unknown.
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
	LossScratch                // the kernel side had no memory to build the record in
	// the kernel did not run the program, as it or another part of eBPF was active on that CPU
	LossSkipped
	LossDecode // the record made no sense
	// not watched: a CPU came online, the kernel made no events, or a source polls
	LossUnseen
	NumLosses = iota
)

var lossNames = [NumLosses]string{"ring_full", "socket_full", "scratch", "skipped", "decode", "unseen"}

func (l Loss) String() string { return nameOf(l, lossNames[:]...) }

// Origin is the way in which a source obtains a value.
type Origin uint8

const (
	OriginNone    Origin = iota // it does not
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
	// At is, for a field, the set of events that bring it.
	At Events
	// Partial is, for a field, the part of At that can leave it unknown, and for a kind not 0
	// if some of its events are not reported: Via names them.
	Partial Events
	// Omits is, for a kind, which events are not reported, beside the events of 32-bit programs
	// where Partial is set.
	Omits Omission
	// Whole is, for a text, how much of it is known in any case: one that goes beyond
	// may be cut, but not to less than that. The zero value stands for all of it.
	Whole Extent
	// Unproven is, for FieldExit, which ends may have another status than is reported.
	Unproven Unproven
}

// Brings reports whether every event of a kind brings the field from the kernel.
func (c *Capability) Brings(k Events) bool {
	return c.Origin == OriginKernel && c.At&^c.Partial&k != 0
}

// Omission is a set of classes of events that a source neither reports nor counts as lost.
type Omission uint8

// The classes.
const (
	OmitEnds Omission = 1 << iota // EXIT by a signal or exit(2), or after threads
	OmitIDs                       // ID_CHANGE but for setsid(2)
	OmitAny                       // any event of the kind
)

// Unproven is a set of classes of ends. The kernel's event does not prove their status.
type Unproven uint8

// The classes.
const (
	// UnprovenSignal is a fatal signal that arrives while the last thread is in exit(2).
	UnprovenSignal Unproven = 1 << iota
	// UnprovenReboot is reboot(2) in a pid namespace with an unread first process.
	UnprovenReboot
	// UnprovenLateReboot is reboot(2) by another process of a pid namespace whose first process
	// has begun to end by itself: the kernel sets the status after the event.
	UnprovenLateReboot
)

// StampError bounds how far the stamp of an event is from the event, in ns. The zero value is an
// exact stamp.
type StampError struct {
	Early, Late uint64
	// Ends is how much later an EXIT can be stamped than the end is visible to the parent.
	Ends uint64
}

// Extent is the length of a text, or of a path: it ends with the first of its bounds
// that is reached. A bound of 0 is none.
type Extent struct {
	Bytes int
	Names int // of directories and the file, for a path
}

// CapabilityTable describes which values a source reports on the running kernel.
type CapabilityTable struct {
	Kinds  [NumKinds]Capability
	Fields [NumFields]Capability
	// Types is where the offsets in the kernel's types come from: a file, an
	// archive's kernel; "" if the source needs none.
	Types string
	// Stamps is the error of the events' stamps.
	Stamps StampError
	// SameIDs is set if ID_CHANGE also reports calls that set ids to their old values.
	SameIDs bool
	// IDsBefore is set if an EXEC has the ids of before it, see [RawEvent.Before].
	IDsBefore bool
	// SplitRecords is set if the texts of an event are in records of their own: a loss can
	// leave them unknown in an event that is delivered.
	SplitRecords bool
	// Notes are facts that belong to no row, such as why a faster way is not used.
	Notes []string
}

// Holder is a [Source] that holds events back after Populate, until it has seen the next ones. Held
// returns the time of the oldest event that it holds; ok is false if it holds none. The engine
// waits for held events, so that they are joined and ordered with the rest, for as long as the
// buffer is not full. A source that holds events has to hand them over in a bounded time, whether
// or not others come.
type Holder interface {
	Held() (oldest uint64, ok bool)
}

// Watcher is a [Source] with checks to make that FD does not signal. Interval is the maximum time
// between calls of Populate; 0 means that FD suffices.
type Watcher interface{ Interval() time.Duration }

// Timekeeper is a [Source] with a clock of its own for the times of its events, as in a recording
// or a test: these do not come from this machine.
type Timekeeper interface{ Clock() *Clock }

// Scanner is a [Source] that knows processes of before its first event. Scan calls f with each,
// for [Engine.Learn]; the event is f's until it returns.
type Scanner interface {
	Scan(f func(*RawEvent) error) error
}
