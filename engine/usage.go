package engine

// Usage is the resources that all threads of a process used together, without its children, as of
// its EXIT. It lacks the cost of the rest of the exit.
type Usage struct {
	// CPU time in nanoseconds, split as by getrusage(2). The sum is the time that the scheduler
	// has accounted: it lacks the time of the last thread since its last tick or switch.
	UserTime, SystemTime uint64

	// PeakRSS is the largest resident memory in bytes, ru_maxrss of wait4(2), over all images
	// since the fork. Its initial value is the parent's memory.
	PeakRSS uint64

	// RChar and WChar are the bytes transferred by read(2), write(2) and similar calls.
	// ReadBytes and WriteBytes are the bytes read from storage, and written to it now or later.
	// They are rchar, wchar, read_bytes and write_bytes of /proc/PID/io.
	RChar, WChar, ReadBytes, WriteBytes uint64
}

// use sets the usage of p, which dropUsage removes.
func (t *table) use(p *process, u *Usage) {
	t.dropUsage()
	t.usage = *u
	t.used = p
}

// dropUsage removes the usage of the process that ended last. Only the EXIT has the usage, so the
// table need not keep it.
func (t *table) dropUsage() {
	if p := t.used; p != nil {
		t.used = nil
		p.Known &^= FieldsUsage
		p.Cached &^= FieldsUsage
		p.Truncated &^= FieldsUsage
	}
}
