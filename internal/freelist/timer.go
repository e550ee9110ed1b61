package freelist

// TrimEvery is the time between two trims, in ns. Bursts within it do not allocate again.
const TrimEvery = 2e9

// Timer measures the time between trims. The zero value is due.
type Timer struct{ last uint64 }

// Due reports whether TrimEvery has passed since it last returned true, by a clock in ns that the
// caller has read anyway.
func (t *Timer) Due(now uint64) bool {
	if now-min(now, t.last) < TrimEvery {
		return false
	}
	t.last = now
	return true
}
