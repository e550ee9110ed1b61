package top

// What names a counter of Counts.
type What int

const (
	Forks What = iota
	Execs
	Exits
	Failed // the exits with a code that is not 0, or by a signal
	numWhats
)

// Counts has a counter for each What.
type Counts [numWhats]uint32

// history has the counts of the last seconds, up to the newest second with any.
type history struct {
	seconds []Counts // second s is at s modulo their number
	newest  uint64
}

// add counts an occurrence in a second, unless that is too long ago.
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

// of returns the counts of a second, or zeroes if it is too long ago.
func (h *history) of(second uint64) Counts {
	if n := uint64(len(h.seconds)); second <= h.newest && second+n > h.newest {
		return h.seconds[second%n]
	}
	return Counts{}
}

// sum returns the sum of some seconds, up to second last.
func (h *history) sum(last uint64, seconds int) (sum Counts) {
	for s := last + 1 - min(last+1, uint64(seconds)); s <= last; s++ {
		c := h.of(s)
		for w := range sum {
			sum[w] += c[w]
		}
	}
	return sum
}
