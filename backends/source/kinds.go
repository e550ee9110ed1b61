package source

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/quark-linux/quark/engine"
)

// Exits selects which ends of processes, and of threads, are reported.
type Exits uint8

const (
	ExitsAll     Exits = iota // also status 0
	ExitsNonzero              // those with another wait status: failures, and ends by a signal
)

// allKinds are the valid kinds of Options.Kinds.
const allKinds = engine.EventFork | engine.EventExec | engine.EventExit | engine.EventIDChange | engine.EventSetProcTitle |
	engine.EventPtrace | engine.EventCoreDump | engine.EventExecFailed | engine.EventCgroupChange | engine.EventNSChange | engine.EventReparent

// DefaultKinds are the kinds that are reported if Options.Kinds is 0.
const DefaultKinds = allKinds &^ engine.EventExecFailed

// kindNames lists the names that ParseKinds takes.
func kindNames() string { return strings.ToLower(strings.Join(allKinds.Names(nil), ",")) }

// ParseKinds returns the kinds of a list of names with commas, such as "fork,exec".
func ParseKinds(list string) (kinds engine.Events, err error) {
	for name := range strings.SplitSeq(list, ",") {
		var kind engine.Events
		for k := range engine.Kind(engine.NumKinds) {
			if strings.EqualFold(name, k.String()) {
				kind = k.Events() & allKinds
			}
		}
		if kind == 0 {
			return 0, fmt.Errorf("%q is no kind of event: it must be a list of %s", name, kindNames())
		}
		kinds |= kind
	}
	return kinds, nil
}

// Reports reports whether one of these kinds is to be reported.
func (o *Options) Reports(any engine.Events) bool { return cmp.Or(o.Kinds, DefaultKinds).Has(any) }

// Passes reports whether an EXIT with a wait status is to be reported.
func (o *Options) Passes(status int32) bool { return o.Exits == ExitsAll || status != 0 }

// ReportsEnds reports whether the source needs the ends of processes.
func (o *Options) ReportsEnds() bool { return o.Reports(engine.EventExit | engine.EventCoreDump) }

// InsertExit inserts the events of an EXIT into the sink, each if it is reported: first a CORE_DUMP
// if the status says that the kernel wrote a core, then the EXIT itself. It returns how many.
func (o *Options) InsertExit(to engine.Sink, exit *engine.RawEvent) (n int) {
	known := exit.Task.Known.Has(engine.FieldExit)
	if known && !exit.Thread && exit.Task.Exit.CoreDumped() && o.Reports(engine.EventCoreDump) {
		core := to.Reserve()
		core.Kind, core.PID, core.TID, core.CPU, core.Image = engine.KindCoreDump, exit.PID, exit.TID, exit.CPU, exit.Image
		core.Time, core.Task = exit.Time, exit.Task
		core.Task.Known &^= engine.FieldExit.Set()
		if exit.Task.Known.Has(engine.FieldComm) {
			core.Set(engine.FieldComm, exit.Bytes(engine.FieldComm))
		}
		to.Insert(core)
		n++
	}
	if !o.Reports(engine.EventExit) || known && !o.Passes(exit.Task.Exit.WaitStatus) {
		to.Release(exit)
		return n
	}
	to.Insert(exit)
	return n + 1
}

// CoreDumps is the table row of CORE_DUMP for a source that reads the status of each exit.
var CoreDumps = engine.Capability{Origin: engine.OriginDerived, Via: "the status of an EXIT that has a core"}

// OverlayInodes explains in the table why the file of an executable is unknown on overlayfs.
const OverlayInodes = " (unknown on overlayfs: the inode can have another number than stat(2) says before Linux 5.5)"

// OneLine returns the text of an error, which may be several joined, in one line for the table.
func OneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// LeftOut is the table row of a kind that is not reported.
var LeftOut = engine.Capability{Origin: engine.OriginNone, Via: "left out by Options.Kinds"}

// LeaveOut completes a capability table: it sets the rows of kinds that are not reported, and of
// fields that no reported kind has. It returns an error if no kind is left.
func (o *Options) LeaveOut(t *engine.CapabilityTable) error {
	some := false
	for k := range t.Kinds {
		switch kind := engine.Kind(k); {
		case kind == engine.KindGap:
		case !o.Reports(kind.Events()):
			if t.Kinds[k] = LeftOut; o.Kinds == 0 {
				t.Kinds[k].Via = "needs Options.FailedExecs"
			}
		case t.Kinds[k].Origin != engine.OriginNone:
			some = true
		}
	}
	for f := range t.Fields {
		if row := &t.Fields[f]; row.Origin != engine.OriginNone && row.At == 0 {
			*row = engine.Capability{Via: "no event of Options.Kinds brings it"}
		}
	}
	if exits := o.Reports(engine.EventExit) && o.Exits == ExitsAll; !exits && t.Kinds[engine.KindReparent].Origin != engine.OriginNone {
		t.Kinds[engine.KindReparent] = engine.Capability{Via: "needs the EXIT of all processes"}
	}
	if exit := &t.Kinds[engine.KindExit]; o.Exits == ExitsNonzero && exit.Origin != engine.OriginNone {
		exit.Partial = engine.EventExit
		exit.Via += "; only of a wait status that is not 0, or not known"
	}
	if !some {
		return fmt.Errorf("it cannot report %s on this kernel: %w", o.Kinds, errors.ErrUnsupported)
	}
	return nil
}
