package exitsnoop

import (
	"syscall"
	"time"

	"github.com/cilium/ebpf/btf"

	"github.com/quark-linux/quark/btfhub"
)

// TaskInfo has the caller's parameters of a trace.
type TaskInfo struct {
	// TraceID is the caller's number for the trace, with which the exit is looked up later. An
	// id can be reused after its event was deleted.
	TraceID uint64

	// PidnsInfo is the required pid namespace of the process. The zero value means its
	// namespace when Trace is called.
	PidnsInfo PidnsInfo
}

// PidnsInfo identifies a pid namespace: st_dev and st_ino of /proc/PID/ns/pid.
type PidnsInfo struct {
	Dev, Ino uint64
}

// ExitStatus describes how a process ended.
type ExitStatus struct {
	// Pid is the pid in the initial pid namespace.
	Pid uint32

	// ExitCode is the raw wait status of the thread group, as in wait(2).
	ExitCode int32

	// StartBoottime is the start time, ns of CLOCK_BOOTTIME, or 0 in a status of
	// ExitedEventFromWaitStatus.
	StartBoottime uint64

	// ExittedTime is the time of the exit, ns of CLOCK_MONOTONIC, or 0 in a status of
	// ExitedEventFromWaitStatus.
	ExittedTime uint64
}

// ExitedTime returns ExittedTime. The misspelt name stays for existing callers.
func (s *ExitStatus) ExitedTime() uint64 { return s.ExittedTime }

// WaitStatus returns the exit code as a wait status.
func (s *ExitStatus) WaitStatus() syscall.WaitStatus { return syscall.WaitStatus(s.ExitCode) }

// Exit is an exit status with the id of its trace.
type Exit struct {
	TraceID uint64
	Membership
	ExitStatus
}

// Stats are the current use of the maps, and counters since their creation.
type Stats struct {
	// Tracing counts the processes that are traced now, Uncollected the events that were not
	// deleted. MaxTracing and MaxEvents are the capacities of the maps.
	Tracing     int `json:"tracing"`
	MaxTracing  int `json:"max_tracing"`
	Uncollected int `json:"uncollected"`
	MaxEvents   int `json:"max_events"`

	// Recorded counts the recorded exits.
	Recorded uint64 `json:"recorded"`
	// Lost counts exits of traced processes that the program could not record. Unseen counts
	// exits that the program did not see: it did not run, the kernel skipped it, or the process
	// did not match the start time and pid namespace that Trace had read. Each is [ErrLost] for
	// its trace id.
	Lost   uint64 `json:"lost"`
	Unseen uint64 `json:"unseen"`
	// Refused counts calls of Trace that returned ErrFull.
	Refused uint64 `json:"refused"`
	// WrongNamespace and WrongStart count exits of threads with the pid of a traced process,
	// but another pid namespace or start time.
	WrongNamespace uint64 `json:"wrong_namespace"`
	WrongStart     uint64 `json:"wrong_start"`
	// Descendants counts the processes that the program traced in trees, Untraced those that it
	// could not trace because a map was full.
	Descendants uint64 `json:"descendants"`
	Untraced    uint64 `json:"untraced"`
}

// Options are for new maps and programs. The zero value is right for most callers. Existing maps
// keep their sizes.
type Options struct {
	// MaxTracing is the number of processes that can be traced at a time. Zero means 16384.
	// Each takes about 130 bytes of kernel memory.
	MaxTracing uint32

	// MaxEvents is the number of traces that can exist, including ended ones that were not
	// deleted. Zero means 16384. It should not be less than MaxTracing, as tracing reserves the
	// room for an exit.
	MaxEvents uint32

	// LockWait limits the wait for other callers that hold the lock of the directory. Zero
	// means one minute.
	LockWait time.Duration

	// BTF selects the running kernel's types. The zero value means the kernel's own, else those
	// in the binary for this release. Package quark names this type BTFOptions.
	BTF btfhub.Options

	types *btf.Spec // if set, types that a test has read once

	// fail, if set, injects errors into the steps of EnsureRunning, for tests.
	fail func(step string) error
}

const (
	defaultEntries  = 16384
	defaultLockWait = time.Minute
)

// step returns the error that o.fail has for the named step, nil without o.fail.
func (o *Options) step(name string) error {
	if o.fail == nil {
		return nil
	}
	return o.fail(name)
}
