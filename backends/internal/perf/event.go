package perf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrNoCPU is the error of [Open] for a CPU that is offline.
var ErrNoCPU = errors.New("the CPU is offline")

// Options set how an event is opened.
type Options struct {
	// CPU is the number of the CPU to observe.
	CPU int

	// Group is the leader of the event's group: the leader enables and disables its group. nil
	// makes the event a leader, which is opened disabled.
	Group *Event

	// Watermark is the number of queued bytes that wakes a reader. 0 makes a wakeup event: each
	// hit writes an empty record and wakes the reader.
	Watermark int

	// Filter is an expression over the fields of the tracepoint. Hits that do not match are
	// neither recorded nor counted. "" matches all hits.
	Filter string
}

// Event is a tracepoint on one CPU.
type Event struct{ fd int }

// sampleType lists the contents of a [Sample].
const sampleType = unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_TIME | unix.PERF_SAMPLE_CPU |
	unix.PERF_SAMPLE_READ | unix.PERF_SAMPLE_RAW

// Open opens the tracepoint with this ID, which its format file has. It needs CAP_PERFMON or
// CAP_SYS_ADMIN, or a low kernel.perf_event_paranoid.
func Open(tracepoint uint64, o Options) (*Event, error) {
	attr := unix.PerfEventAttr{
		Type:    unix.PERF_TYPE_TRACEPOINT,
		Size:    unix.PERF_ATTR_SIZE_VER5,
		Config:  tracepoint,
		Sample:  1, // each hit
		Bits:    unix.PerfBitUseClockID,
		Clockid: unix.CLOCK_MONOTONIC, // Linux 4.1
	}
	attr.Wakeup = 1
	if o.Watermark > 0 {
		attr.Sample_type = sampleType
		attr.Bits |= unix.PerfBitWatermark
		attr.Wakeup = uint32(o.Watermark)
	}
	group := -1
	if o.Group != nil {
		group = o.Group.fd
	} else {
		attr.Bits |= unix.PerfBitDisabled
	}
	e, err := open(&attr, o.CPU, group)
	if err == nil && o.Filter != "" {
		if err = e.filter(o.Filter); err != nil {
			e.Close()
			return nil, err
		}
	}
	return e, err
}

func open(attr *unix.PerfEventAttr, cpu, group int) (*Event, error) {
	fd, err := unix.PerfEventOpen(attr, -1, cpu, group, unix.PERF_FLAG_FD_CLOEXEC)
	switch {
	case errors.Is(err, unix.ENODEV):
		return nil, ErrNoCPU
	case errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM):
		return nil, fmt.Errorf("perf_event_open: %w: needs %s", err, neededPrivileges())
	case errors.Is(err, unix.ENOSYS):
		return nil, fmt.Errorf("perf_event_open: %w: needs CONFIG_PERF_EVENTS", err)
	case err != nil:
		return nil, fmt.Errorf("perf_event_open: %w", err)
	}
	return &Event{fd}, nil
}

// OpenOutput opens an event for the records that a BPF program writes by perf_event_output on a
// CPU. [ParseOutput] parses its samples. watermark is as in [Options], but if it is 0 each record
// wakes the reader.
func OpenOutput(cpu, watermark int) (*Event, error) {
	attr := unix.PerfEventAttr{
		Type:        unix.PERF_TYPE_SOFTWARE,
		Size:        unix.PERF_ATTR_SIZE_VER5,
		Config:      unix.PERF_COUNT_SW_BPF_OUTPUT,
		Sample_type: unix.PERF_SAMPLE_RAW,
		Sample:      1, // each hit
		Wakeup:      1,
	}
	if watermark > 0 {
		attr.Bits |= unix.PerfBitWatermark
		attr.Wakeup = uint32(watermark)
	}
	return open(&attr, cpu, -1)
}

// FD returns the descriptor for a BPF map of perf events.
func (e *Event) FD() int { return e.fd }

// OpenLeader opens a leader on a CPU, which enables and disables a group of events. The leader
// itself has no hits.
func OpenLeader(cpu int) (*Event, error) {
	return open(&unix.PerfEventAttr{
		Type:    unix.PERF_TYPE_SOFTWARE,
		Size:    unix.PERF_ATTR_SIZE_VER5,
		Config:  unix.PERF_COUNT_SW_DUMMY,
		Bits:    unix.PerfBitDisabled | unix.PerfBitUseClockID,
		Clockid: unix.CLOCK_MONOTONIC, // all events of a group must have the same clock
	}, cpu, -1)
}

// neededPrivileges returns the privileges that opening a tracepoint needs. CAP_PERFMON is not
// enough if kernel.perf_event_paranoid is above 2. Distributions have added such values: 3 is
// Debian's default.
func neededPrivileges() string {
	b, err := os.ReadFile("/proc/sys/kernel/perf_event_paranoid")
	if err != nil {
		return "CAP_PERFMON or CAP_SYS_ADMIN"
	}
	setting := strings.TrimSpace(string(b))
	if n, err := strconv.Atoi(setting); err == nil && n > 2 {
		return "CAP_SYS_ADMIN, or CAP_PERFMON with a kernel.perf_event_paranoid of at most 2 (it is " + setting + ")"
	}
	return "CAP_PERFMON or CAP_SYS_ADMIN, or kernel.perf_event_paranoid of -1 (it is " + setting + ")"
}

func (e *Event) filter(expr string) error {
	b, err := unix.BytePtrFromString(expr)
	if err != nil {
		return err
	}
	if err := ioctlPointer(e.fd, unix.PERF_EVENT_IOC_SET_FILTER, b); err != nil {
		return fmt.Errorf("set filter %q: %w", expr, err)
	}
	return nil
}

// SetOutput makes the event write to a ring of the same CPU.
func (e *Event) SetOutput(r *Ring) error {
	if err := unix.IoctlSetInt(e.fd, unix.PERF_EVENT_IOC_SET_OUTPUT, r.fd); err != nil {
		return fmt.Errorf("redirect perf event: %w", err)
	}
	return nil
}

// Enable enables a leader and its group.
func (e *Event) Enable() error {
	return unix.IoctlSetInt(e.fd, unix.PERF_EVENT_IOC_ENABLE, 0)
}

// Disable disables a leader and its group.
func (e *Event) Disable() error {
	return unix.IoctlSetInt(e.fd, unix.PERF_EVENT_IOC_DISABLE, 0)
}

// Count returns how often the event happened while it was enabled, including hits that were not
// recorded.
func (e *Event) Count() (uint64, error) {
	var b [8]byte
	n, err := unix.Read(e.fd, b[:])
	if err != nil || n != len(b) {
		return 0, fmt.Errorf("read count of perf event: %d bytes, %w", n, err)
	}
	return binary.NativeEndian.Uint64(b[:]), nil
}

// Close closes the event.
func (e *Event) Close() error {
	if e.fd < 0 {
		return os.ErrClosed
	}
	err := unix.Close(e.fd)
	e.fd = -1
	return err
}

// ioctlPointer is ioctl(2) with a pointer to memory of Go.
func ioctlPointer(fd int, request uint, p *byte) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(unsafe.Pointer(p)))
	if errno != 0 {
		return errno
	}
	return nil
}
