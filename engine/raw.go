package engine

// RawEvent is one event as a source saw it. A source gets an empty one from [Sink.Reserve], fills
// it and passes it to [Sink.Insert] or [Sink.Release]. The storage is reused, so that a warm source
// does not allocate per event.
type RawEvent struct {
	Kind Kind

	// Thread is set if the event concerns one thread and not its thread group: the creation or
	// end of a thread that is not the whole process, or a new comm or new ids of a thread other
	// than the leader.
	Thread bool

	// Image numbers the image that the process executes, 0 if unknown. A child begins with its
	// parent's number. An exec changes it, also an exec that fails after the old image is gone:
	// the process then ends without an EXEC.
	Image uint16

	PID  uint32 // the pid of user space, the kernel's tgid
	Time uint64 // CLOCK_MONOTONIC nanoseconds

	TID uint32 // the thread: the kernel's pid
	CPU uint32
	Seq uint64 // per-CPU sequence number, 0 where the source has none

	// Creator is, for a fork, the process whose image the child gets. With CLONE_PARENT it is
	// not the parent. If Creator is 0 (unknown), the child inherits no values. For a
	// KindCgroupChange it is the process that wrote to cgroup.procs. For the EXIT of a process
	// that may have children it is the process that becomes their parent, or UnknownReaper.
	Creator uint32

	// Tracer is the process that traces this one, for KindPtrace; 0:0 means detached.
	Tracer struct{ PID, TID uint32 }

	IDChange IDChange // for KindIDChange
	NSChange NSChange // for KindNSChange
	Usage    Usage    // for KindExit

	// Before has, for KindExec, the effective ids of the thread before the exec, if they are
	// known. They need FieldExeFile.
	Before struct {
		EUID, EGID uint32
		Known      bool
	}

	// Errno is, for KindExecFailed, the error of the call. FieldFilename is then the path
	// argument of the call, and not the path of an image: see [FailedExec].
	Errno uint16

	Gap *Gap // for KindGap, which SetGap makes

	// Read is the time at which the cached fields were read, if later than Time, else 0. A
	// child forked between Time and Read may have had other values.
	Read uint64

	// Task is the state that the source saw with the event. In a Thread event
	// FieldExit is the thread's own code.
	Task Task

	vars [numVars]span
	data []byte
}

// numVars is the number of fields of variable length: FieldComm to FieldCgroup, which are
// consecutive, FieldExecPath and FieldEnviron.
const numVars = FieldCgroup - FieldComm + 1 + 2

type span struct{ off, len uint32 }

// maxKeptData bounds the storage that an event keeps for its next use; typical
// events need a few hundred bytes, the longest 36 KiB.
const maxKeptData = 2048

// minData is enough for the texts of most events.
const minData = 128

// varOf returns the index of a field in RawEvent.vars, or an index out of range if the field has no
// bytes.
func varOf(f Field) Field {
	switch f {
	case FieldExecPath:
		return numVars - 2
	case FieldEnviron:
		return numVars - 1
	case FieldComm, FieldExe, FieldArgs, FieldCwd, FieldCgroup:
		return f - FieldComm
	}
	return numVars
}

// Reset makes r an empty event that keeps its storage.
func (r *RawEvent) Reset() {
	data := r.data[:0]
	if cap(data) > maxKeptData {
		data = nil
	}
	*r = RawEvent{} // a literal with data would be built elsewhere and then copied
	r.data = data
}

// CopyNumbers makes r a copy of o without its texts and its gap.
func (r *RawEvent) CopyNumbers(o *RawEvent) {
	data := r.data[:0]
	*r = *o
	r.data, r.vars, r.Gap = data, [numVars]span{}, nil
}

// Grow reserves n bytes of storage for field f (FieldComm, FieldExe, FieldArgs, FieldCwd,
// FieldCgroup, FieldExecPath or FieldEnviron), marks f as known and returns the bytes for the
// caller to fill. The slice is valid until the next call of Grow or Set.
func (r *RawEvent) Grow(f Field, n int) []byte {
	off := len(r.data)
	if off+n > cap(r.data) {
		r.enlarge(off + n)
	}
	data := r.data[:off+n]
	r.data = data
	r.vars[varOf(f)] = span{uint32(off), uint32(n)}
	r.Task.Known |= f.Set()
	return data[off:]
}

// enlarge allocates storage for n bytes, at least as much as most events need: outgrown storage
// stays until the next garbage collection.
func (r *RawEvent) enlarge(n int) {
	r.data = append(make([]byte, 0, max(minData, 2*len(r.data), n)), r.data...)
}

// Set copies b into field f and marks f as known.
func (r *RawEvent) Set(f Field, b []byte) { copy(r.Grow(f, len(b)), b) }

// Detach gives r its own storage, no longer shared with a copy of r.
func (r *RawEvent) Detach() { r.data = append(make([]byte, 0, max(minData, len(r.data))), r.data...) }

// Bytes returns the value of field f, or nil if f is unknown. The caller must not write to it.
func (r *RawEvent) Bytes(f Field) []byte {
	s := r.vars[varOf(f)]
	if !r.Task.Known.Has(f) {
		return nil
	}
	return r.data[s.off : s.off+s.len]
}
