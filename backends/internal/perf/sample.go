package perf

import (
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"
)

// The types of records that rings of this package hold (linux/perf_event.h).
const (
	RecordLost   = unix.PERF_RECORD_LOST
	RecordSample = unix.PERF_RECORD_SAMPLE
)

// Sample is one event.
type Sample struct {
	PID, TID uint32 // of the current task, as the pid namespace of the opener has it
	Time     uint64 // CLOCK_MONOTONIC nanoseconds
	CPU      uint32
	Count    uint64 // of this event on this CPU, this one included
	Raw      []byte // the tracepoint's record, as its format file describes it
}

// ErrSample is the error of a sample whose lengths do not add up.
var ErrSample = errors.New("perf sample shorter than it says")

// ParseSample takes the body of a [RecordSample] apart. A bell has no body and
// is no sample: see [IsBell]. Raw points into the body.
func (s *Sample) ParseSample(body []byte) error {
	const fixed = 8 + 8 + 8 + 8 + 4
	if len(body) < fixed {
		return ErrSample
	}
	e := binary.NativeEndian
	s.PID, s.TID = e.Uint32(body), e.Uint32(body[4:])
	s.Time = e.Uint64(body[8:])
	s.CPU = e.Uint32(body[16:])
	s.Count = e.Uint64(body[24:])
	size := e.Uint32(body[32:])
	if uint64(size) > uint64(len(body)-fixed) {
		return ErrSample
	}
	s.Raw = body[fixed:][:size:size]
	return nil
}

// IsBell tells whether a record is that of an event without content.
func IsBell(r Record) bool { return r.Type == RecordSample && len(r.Body) == 0 }

// ParseLost returns how many records a [RecordLost] says were lost before it.
func ParseLost(body []byte) (uint64, error) {
	if len(body) < 16 {
		return 0, ErrSample
	}
	return binary.NativeEndian.Uint64(body[8:]), nil
}
