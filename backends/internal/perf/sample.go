package perf

import (
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"
)

// The types of records in rings of this package (linux/perf_event.h).
const (
	RecordLost   = unix.PERF_RECORD_LOST
	RecordSample = unix.PERF_RECORD_SAMPLE
)

// Sample is one hit of an event.
type Sample struct {
	// PID and TID are the current task's numbers in the pid namespace of the process that
	// opened the event.
	PID, TID uint32
	Time     uint64 // CLOCK_MONOTONIC nanoseconds
	CPU      uint32
	Count    uint64 // hits of the event on this CPU, including this one
	Raw      []byte // the tracepoint's fields, in the layout of its format file
}

// ErrSample is the error of a sample with inconsistent lengths.
var ErrSample = errors.New("perf sample is shorter than its lengths")

// ParseSample decodes the body of a [RecordSample] that is not a wakeup record ([IsWakeup]). Raw
// aliases the body.
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

// ParseOutput returns the data that a BPF program wrote, from the body of a [RecordSample] of an
// event of [OpenOutput]. The kernel pads the record to a multiple of eight bytes, and does not
// store the length of the padding. So the programs write the length of the data in 4 bytes before
// the data.
func ParseOutput(body []byte) ([]byte, error) {
	const lengths = 4 + 4 // the kernel's length, with the padding, and the program's length
	if len(body) < lengths {
		return nil, ErrSample
	}
	e := binary.NativeEndian
	raw, own := uint64(e.Uint32(body)), uint64(e.Uint32(body[4:]))
	if raw > uint64(len(body)-4) || own+4 > raw {
		return nil, ErrSample
	}
	return body[lengths:][:own:own], nil
}

// IsWakeup reports whether a record is the empty record of a wakeup event.
func IsWakeup(r Record) bool { return r.Type == RecordSample && len(r.Body) == 0 }
