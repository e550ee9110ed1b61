package enginetest

import (
	"fmt"
	"math"
	"os"

	"github.com/quark-linux/quark/engine"
)

// Raw describes one raw event. Comm, Exe, Args, Cwd, Cgroup and ExecPath are unknown if nil.
// Task.Known lists the known members of Task.
type Raw struct {
	Kind     engine.Kind
	Thread   bool
	PID      uint32
	TID      uint32 // 0 means PID
	CPU      uint32
	Seq      uint64
	Time     uint64 // CLOCK_MONOTONIC nanoseconds
	Creator  uint32
	Image    uint16
	IDChange engine.IDChange
	NSChange engine.NSChange
	Errno    uint16     // for engine.KindExecFailed
	Gap      engine.Gap // for engine.KindGap, with Time = Gap.From
	Task     engine.Task
	Read     uint64
	Before   struct {
		EUID, EGID uint32
		Known      bool
	}
	Usage    engine.Usage
	Comm     []byte
	Exe      []byte
	Args     []byte
	Environ  []byte
	Cwd      []byte
	Cgroup   []byte
	ExecPath []byte
}

// Fill writes the description into r, which must be empty.
func (d *Raw) Fill(r *engine.RawEvent) {
	r.Kind, r.Thread, r.PID, r.TID = d.Kind, d.Thread, d.PID, d.TID
	if r.TID == 0 {
		r.TID = d.PID
	}
	r.CPU, r.Seq, r.Time, r.Creator, r.IDChange, r.Task = d.CPU, d.Seq, d.Time, d.Creator, d.IDChange, d.Task
	r.NSChange = d.NSChange
	r.Image, r.Errno, r.Usage, r.Read, r.Before = d.Image, d.Errno, d.Usage, d.Read, d.Before
	if d.Kind == engine.KindGap {
		r.SetGap(d.Gap)
		r.Time = d.Time
	}
	set(r, engine.FieldComm, d.Comm)
	set(r, engine.FieldExe, d.Exe)
	set(r, engine.FieldArgs, d.Args)
	set(r, engine.FieldEnviron, d.Environ)
	set(r, engine.FieldCwd, d.Cwd)
	set(r, engine.FieldCgroup, d.Cgroup)
	set(r, engine.FieldExecPath, d.ExecPath)
}

func set(r *engine.RawEvent, f engine.Field, b []byte) {
	if b != nil {
		r.Set(f, b)
	}
}

// Source is an engine.Source without a kernel. Push queues events for the next Populate. Lose
// counts losses.
type Source struct {
	queue  []Raw
	head   int
	stats  engine.SourceStats
	table  engine.CapabilityTable
	closed bool
}

// Push queues events.
func (s *Source) Push(events ...Raw) {
	if s.head == len(s.queue) {
		s.queue, s.head = s.queue[:0], 0
	}
	s.queue = append(s.queue, events...)
	for i := range events {
		if events[i].Kind != engine.KindGap {
			s.stats.Produced++
		}
	}
}

// Lose counts n events as produced and lost.
func (s *Source) Lose(cause engine.Loss, n uint64) {
	if cause >= engine.NumLosses {
		panic(fmt.Sprintf("enginetest: %d is no cause of loss: they are LossRingFull (0) to %s (%d)", cause, engine.Loss(engine.NumLosses-1), engine.NumLosses-1))
	}
	s.stats.Produced += n
	s.stats.Lost[cause] += n
}

// Name implements engine.Source.
func (s *Source) Name() string { return "enginetest" }

// Capabilities implements engine.Source: all kinds of event are reported, and each has the fields
// that were pushed.
func (s *Source) Capabilities() *engine.CapabilityTable {
	for k := range s.table.Kinds {
		s.table.Kinds[k] = engine.Capability{Origin: engine.OriginKernel, Via: "enginetest"}
	}
	return &s.table
}

// Populate implements engine.Source.
func (s *Source) Populate(to engine.Sink) error {
	_, err := s.populate(to, math.MaxUint64)
	return err
}

// populate inserts the events up to a time while there is room, and returns their number.
func (s *Source) populate(to engine.Sink, until uint64) (n int, err error) {
	if s.closed {
		return 0, os.ErrClosed
	}
	for ; s.head < len(s.queue) && s.queue[s.head].Time <= until && to.Room() > 0; n++ {
		r := to.Reserve()
		s.queue[s.head].Fill(r)
		to.Insert(r)
		s.head++
	}
	return n, nil
}

// Queued is the number of pushed events that Populate has not fetched yet.
func (s *Source) Queued() int { return len(s.queue) - s.head }

// FD implements engine.Source: there is no descriptor.
func (s *Source) FD() int { return -1 }

// Arm implements engine.Source.
func (s *Source) Arm(bool) bool { return s.Queued() == 0 }

// Stats implements engine.Source.
func (s *Source) Stats() (engine.SourceStats, error) { return s.stats, nil }

// Close implements engine.Source.
func (s *Source) Close() error {
	s.closed = true
	return nil
}
