package engine

// Usage is the resources used by a process in its life, by all its threads together and without its
// children, as of its EXIT. It lacks the cost of the rest of its end.
type Usage struct {
	// CPU time in nanoseconds, divided as getrusage(2) divides it. Their sum is the time that
	// the scheduler has accounted: it lacks the time of the last thread since the last tick or
	// switch.
	UserTime, SystemTime uint64

	// PeakRSS is the largest resident memory in bytes, ru_maxrss of wait4(2), over all images
	// since the fork. It begins with the parent's memory.
	PeakRSS uint64

	// RChar and WChar are the bytes that read(2), write(2) and the like have moved; ReadBytes
	// and WriteBytes are those that storage was, or will be, read and written for it: rchar,
	// wchar, read_bytes and write_bytes of /proc/PID/io.
	RChar, WChar, ReadBytes, WriteBytes uint64
}

// use sets the usage of p, until dropUsage.
func (t *table) use(p *process, u *Usage) {
	t.dropUsage()
	t.usage = *u
	t.used = p
}

// dropUsage removes the usage of the last process that ended: only its EXIT has it, so that the
// table need not keep it.
func (t *table) dropUsage() {
	if p := t.used; p != nil {
		t.used = nil
		p.Known &^= FieldsUsage
		p.Cached &^= FieldsUsage
		p.Truncated &^= FieldsUsage
	}
}
