package engine

// Usage is what a process has used in its life, all its threads together and without its children,
// as of its EXIT: what the rest of its end takes is not in it.
type Usage struct {
	// CPU time in nanoseconds, divided as getrusage(2) divides it. Their sum is what the
	// scheduler has accounted, which lacks what the last thread ran since the last tick or
	// switch.
	UserTime, SystemTime uint64

	// PeakRSS is the most memory in bytes that was resident, ru_maxrss of wait4(2): of all
	// images since the fork, which begins with what the parent had.
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
