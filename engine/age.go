package engine

import "math/bits"

// targetAge is how old the oldest event has to be, in nanoseconds, before it is delivered, when n
// of max places are taken: hold up to a tenth of max, then less on a straight line to 0 when the
// buffer is full.
func targetAge(hold uint64, max, n int) uint64 {
	m, k := uint64(max), uint64(n)
	switch {
	case k >= m:
		return 0
	case 10*k <= m:
		return hold
	}
	return mulDiv(hold, 10*(m-k), 9*m)
}

// mulDiv is a*b/c in 128 bits; the quotient has to fit in 64.
func mulDiv(a, b, c uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	if hi == 0 {
		return lo / c // a short division costs less
	}
	q, _ := bits.Div64(hi, lo, c)
	return q
}
