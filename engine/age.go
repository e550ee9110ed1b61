package engine

import "math/bits"

// targetAge is how old the oldest event has to be, in nanoseconds, before it
// is delivered, when n of max places are taken: hold up to a tenth of max,
// falling on a straight line to hold/10 at nine tenths, then on another to 0
// when the buffer is full. The reference jumps at one and at nine tenths; this
// curve passes through the same points and has no step.
func targetAge(hold uint64, max, n int) uint64 {
	h, m, k := hold, uint64(max), uint64(n)
	switch {
	case k >= m:
		return 0
	case 10*k <= m:
		return h
	case 10*k >= 9*m:
		return mulDiv(h, m-k, m)
	default:
		return h - mulDiv(9*h, 10*k-m, 80*m)
	}
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
