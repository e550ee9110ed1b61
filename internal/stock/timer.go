package stock

// TrimEvery is the time between two trims, in ns. Bursts that follow each other within it allocate
// nothing.
const TrimEvery = 2e9

// Timer says when it is time to let go of what was not needed. The zero value has never said so.
type Timer struct{ last uint64 }

// Due reports whether TrimEvery has passed since it last was, by a clock in ns that the caller has
// read anyway.
func (t *Timer) Due(now uint64) bool {
	if now-min(now, t.last) < TrimEvery {
		return false
	}
	t.last = now
	return true
}
