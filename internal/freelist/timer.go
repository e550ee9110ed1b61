package freelist

// TrimEvery is the time between two trims, in ns. Bursts within it do not allocate again.
const TrimEvery = 2e9

// Timer measures the time between trims. The zero value is due.
type Timer struct{ last uint64 }

// Due reports whether TrimEvery has passed since Due last returned true. now is a time in ns.
func (t *Timer) Due(now uint64) bool {
	if now-min(now, t.last) < TrimEvery {
		return false
	}
	t.last = now
	return true
}
