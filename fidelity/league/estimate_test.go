package league

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// naive returns the coverage of the interval between the k-th smallest and the k-th largest of n
// values by counting: all 2^n ways in which they can be below or above the median are as likely.
func naive(n, k int) float64 {
	hits := 0
	for ways := range 1 << n {
		below := 0
		for i := range n {
			below += ways >> i & 1
		}
		if below >= k && n-below >= k {
			hits++
		}
	}
	return float64(hits) / float64(int(1)<<n)
}

func TestCoverage(t *testing.T) {
	for n := 1; n <= 14; n++ {
		for k := 1; 2*k <= n+1; k++ {
			if got, want := coverage(n, k), naive(n, k); math.Abs(got-want) > 1e-12 {
				t.Errorf("coverage(%d, %d) = %v, it is %v", n, k, got, want)
			}
		}
	}
}

// The interval is the narrowest of order statistics with enough coverage, or all values.
func TestEstimateOf(t *testing.T) {
	if e := EstimateOf(nil); e.N != 0 {
		t.Errorf("of nothing: %+v", e)
	}
	for n := 1; n <= 14; n++ {
		values := make([]float64, n)
		for i := range values {
			values[i] = rand.NormFloat64()
		}
		e := EstimateOf(values)
		v := slices.Sorted(slices.Values(values))
		best := 1
		for k := 1; 2*k <= n+1; k++ {
			if naive(n, k) >= 0.95 {
				best = k
			}
		}
		if e.N != n || e.Low != v[best-1] || e.High != v[n-best] || math.Abs(e.Coverage-naive(n, best)) > 1e-12 {
			t.Errorf("of %d values %v: %+v, k is %d", n, v, e, best)
		}
		if below := slices.IndexFunc(v, func(x float64) bool { return x >= e.Median }); below > n/2 || e.Median < e.Low || e.Median > e.High {
			t.Errorf("the median of %v is %v", v, e.Median)
		}
	}
	if c := EstimateOf(make([]float64, 5)).Coverage; c >= 0.95 || c < 0.93 {
		t.Errorf("five values cover %v", c)
	}
	if c := EstimateOf(make([]float64, 6)).Coverage; c < 0.95 {
		t.Errorf("six values cover %v", c)
	}
}

// Of many samples of a skewed distribution as many intervals have its median as they say.
func TestIntervalsHaveTheMedian(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{3, 6, 11} {
		const samples = 20000
		hits := 0
		var e Estimate
		for range samples {
			values := make([]float64, n)
			for i := range values {
				values[i] = r.ExpFloat64()
			}
			if e = EstimateOf(values); e.Low <= math.Ln2 && math.Ln2 <= e.High {
				hits++
			}
		}
		if got := float64(hits) / samples; math.Abs(got-e.Coverage) > 0.01 {
			t.Errorf("%d values: %v of the intervals have the median, they say %v", n, got, e.Coverage)
		}
	}
}
