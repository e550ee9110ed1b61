package exitsnoop

import (
	"time"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// TaskInfo says how a process is traced.
type TaskInfo struct {
	// TraceID is the caller's name for the trace, under which the end of the
	// process is found later. One id can be used again only after its event
	// was deleted.
	TraceID uint64

	// PidnsInfo is the pid namespace that the process must live in. The zero
	// value means the one it lives in when Trace is called.
	PidnsInfo PidnsInfo
}

// PidnsInfo names a pid namespace: st_dev and st_ino of /proc/PID/ns/pid.
type PidnsInfo struct {
	Dev, Ino uint64
}

// ExitStatus is how a process ended.
type ExitStatus struct {
	// Pid is that of the process in the initial pid namespace.
	Pid uint32

	// ExitCode is the raw status of the thread group, as wait(2) has it.
	ExitCode int32

	// StartBoottime is when it started, in ns since boot with suspended time.
	// It is 0 in a status that was put in from wait(2).
	StartBoottime uint64

	// ExittedTime is when it ended, CLOCK_MONOTONIC in ns. It is 0 in a status
	// that was put in from wait(2).
	ExittedTime uint64
}

// WaitStatus decodes the exit code.
func (s *ExitStatus) WaitStatus() unix.WaitStatus { return unix.WaitStatus(s.ExitCode) }

// Exit is an exit with the id of its trace.
type Exit struct {
	TraceID uint64
	ExitStatus
}

// Stats count what happened since the maps were made.
type Stats struct {
	// Tracing and Uncollected are how many processes are traced and how many
	// exits wait to be deleted, now.
	Tracing, Uncollected int

	// MaxTracing and MaxEvents are the sizes of the maps.
	MaxTracing, MaxEvents int

	// Recorded exits.
	Recorded uint64
	// Lost are exits of traced processes that could not be recorded, and Unseen
	// those found to have ended that the program did not see: it did not run, it was skipped,
	// or the process was not as Trace had seen it. Each is reported as [ErrLost] for its trace id.
	Lost, Unseen uint64
	// WrongNamespace and WrongStart are exits, of threads, with the pid of a traced process
	// that live in another pid namespace or started at another time.
	WrongNamespace, WrongStart uint64
	// Refused are calls of Trace that found a map full.
	Refused uint64
}

// Options are what a new set of maps and a new program are made with. The zero
// value is right for most. Maps that exist already keep their sizes.
type Options struct {
	// MaxTracing is how many processes can be traced at once; 0 means 16384.
	// Each takes about 130 bytes of kernel memory.
	MaxTracing uint32

	// MaxEvents is how many traces can exist, those of processes that have
	// ended and were not deleted yet included; 0 means 16384. It should not be
	// less than MaxTracing, as room for an exit is made before it happens.
	MaxEvents uint32

	// LockWait is how long to wait for other callers that are at work on the
	// same directory; 0 means a minute.
	LockWait time.Duration

	// KernelTypes is the BTF of the running kernel, for kernels that have
	// none. Leave it nil where /sys/kernel/btf/vmlinux exists, and where that
	// of package btfhub will do.
	KernelTypes *btf.Spec

	// fail makes a step of EnsureRunning fail, for tests.
	fail func(step string) error
}

const (
	defaultEntries  = 16384
	defaultLockWait = time.Minute
)

func (o *Options) maxTracing() uint32 { return orDefault(o.MaxTracing) }
func (o *Options) maxEvents() uint32  { return orDefault(o.MaxEvents) }

func orDefault(n uint32) uint32 {
	if n == 0 {
		return defaultEntries
	}
	return n
}

// step returns the error that a test wants at this step.
func (o *Options) step(name string) error {
	if o.fail == nil {
		return nil
	}
	return o.fail(name)
}
