package league

import (
	"fmt"
	"math"
	"slices"
)

// Estimate is the median of some values and an interval that has the median of what they were drawn
// from, which is not assumed to have any shape, with a probability of Coverage.
type Estimate struct {
	N         int     `json:"n"`
	Median    float64 `json:"median"`
	Low, High float64
	// Coverage is 95 % or more if there are enough values for that, six. With fewer values the
	// interval has all of them, and Coverage is what that is worth. It is 0 with one value.
	Coverage float64
}

// confidence is the wanted coverage.
const confidence = 0.95

// EstimateOf returns the estimate of some values. Its interval is between two order statistics: the
// k-th smallest and the k-th largest value, with the greatest k whose coverage is enough. Each
// value is below the true median with a probability of one half, so that the number of those below
// is binomial: the interval misses the median if fewer than k are below, or fewer than k above.
func EstimateOf(values []float64) Estimate {
	n := len(values)
	if n == 0 {
		return Estimate{}
	}
	v := slices.Sorted(slices.Values(values))
	k := 1
	for 2*(k+1) <= n+1 && coverage(n, k+1) >= confidence {
		k++
	}
	return Estimate{N: n, Median: (v[(n-1)/2] + v[n/2]) / 2, Low: v[k-1], High: v[n-k], Coverage: coverage(n, k)}
}

// coverage returns the probability that the median is between the k-th smallest and the k-th
// largest of n values.
func coverage(n, k int) float64 {
	miss, term := 0.0, math.Pow(0.5, float64(n)) // term: exactly i of n values are below
	for i := range k {
		miss += term
		term *= float64(n-i) / float64(i+1)
	}
	return max(0, 1-2*miss)
}

// Text formats the estimate: the median, and the interval if there is one.
func (e Estimate) Text(format func(float64) string) string {
	switch {
	case e.N == 0:
		return "-"
	case e.N == 1 || format(e.Low) == format(e.High):
		return format(e.Median)
	}
	return fmt.Sprintf("%s (%s-%s)", format(e.Median), format(e.Low), format(e.High))
}
