package engine

import "math/bits"

// targetAge returns the age in nanoseconds at which the oldest event is delivered, while n of max
// places are used. It is hold up to n = max/10, then falls linearly to 0 at n = max.
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

// mulDiv returns a*b/c, computed in 128 bits. The quotient has to fit into 64.
func mulDiv(a, b, c uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	if hi == 0 {
		return lo / c // a short division costs less
	}
	q, _ := bits.Div64(hi, lo, c)
	return q
}
