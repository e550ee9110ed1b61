package top

// What identifies a counter in Counts.
type What int

const (
	Forks What = iota
	Execs
	Exits
	Failed // exits with a code other than 0, or by a signal
	numWhats
)

// Counts has a counter for each What.
type Counts [numWhats]uint32

// history has the counts of the last seconds.
type history struct {
	seconds []Counts // the counts of second s are at s modulo len(seconds)
	newest  uint64
}

// add counts an occurrence in a second, unless the second is too old.
func (h *history) add(second uint64, w What) {
	n := uint64(len(h.seconds))
	if second+n <= h.newest {
		return
	}
	if second > h.newest {
		for s := max(h.newest, second-min(second, n)) + 1; s <= second; s++ {
			h.seconds[s%n] = Counts{}
		}
		h.newest = second
	}
	h.seconds[second%n][w]++
}

// at returns the counts at a second, or zeroes if the second is too old.
func (h *history) at(second uint64) Counts {
	if n := uint64(len(h.seconds)); second <= h.newest && second+n > h.newest {
		return h.seconds[second%n]
	}
	return Counts{}
}

// sum returns the sum of the counts in seconds, of which last is the newest.
func (h *history) sum(last uint64, seconds int) (sum Counts) {
	for s := last + 1 - min(last+1, uint64(seconds)); s <= last; s++ {
		c := h.at(s)
		for w := range sum {
			sum[w] += c[w]
		}
	}
	return sum
}
