package engine

import (
	"math/big"
	"math/rand/v2"
	"testing"
)

// naiveAge is the curve in exact rational numbers.
func naiveAge(hold uint64, max, n int) *big.Rat {
	h := new(big.Rat).SetInt(new(big.Int).SetUint64(hold))
	fill := big.NewRat(int64(n), int64(max))
	tenth, nine := big.NewRat(1, 10), big.NewRat(9, 10)
	line := func(x0, y0, x1, y1 *big.Rat) *big.Rat {
		slope := new(big.Rat).Quo(new(big.Rat).Sub(y1, y0), new(big.Rat).Sub(x1, x0))
		return slope.Add(slope.Mul(slope, new(big.Rat).Sub(fill, x0)), y0)
	}
	low := new(big.Rat).Mul(h, tenth)
	one, zero := big.NewRat(1, 1), new(big.Rat)
	switch {
	case fill.Cmp(tenth) <= 0:
		return h
	case fill.Cmp(nine) <= 0:
		return line(tenth, h, nine, low)
	case fill.Cmp(one) < 0:
		return line(nine, low, one, zero)
	}
	return zero
}

func checkAge(t *testing.T, hold uint64, max, n int) {
	t.Helper()
	got := new(big.Rat).SetInt(new(big.Int).SetUint64(targetAge(hold, max, n)))
	if diff := got.Sub(got, naiveAge(hold, max, n)); diff.Abs(diff).Cmp(big.NewRat(1, 1)) > 0 {
		t.Fatalf("targetAge(%d, %d, %d) = %d, want %s", hold, max, n, targetAge(hold, max, n), naiveAge(hold, max, n).FloatString(3))
	}
}

func TestTargetAgeEqualsExactCurve(t *testing.T) {
	const ms = 1_000_000
	// Small buffers whole, with the cases where the reference divided by zero or went negative.
	for _, hold := range []uint64{10 * ms, 15 * ms, 1000 * ms, uint64(MaxHoldTime)} {
		for max := 1; max <= 60; max++ {
			for n := 0; n <= max+2; n++ {
				checkAge(t, hold, max, n)
				if n > 0 && targetAge(hold, max, n) > targetAge(hold, max, n-1) {
					t.Fatalf("age rises from n=%d to %d (hold %d, max %d)", n-1, n, hold, max)
				}
			}
		}
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		hold := uint64(MinHoldTime) + rnd.Uint64N(uint64(MaxHoldTime-MinHoldTime)+1)
		max := 1 + rnd.IntN(MaxMaxLength)
		checkAge(t, hold, max, rnd.IntN(max+1))
	}
}

// The curve has no step: one more event changes it by no more than its
// steepest slope, which is 9/8 hold over the whole buffer.
func TestTargetAgeIsContinuous(t *testing.T) {
	const hold, max = 1_000_000_000, 10000
	for n := 1; n <= max; n++ {
		if step := targetAge(hold, max, n-1) - targetAge(hold, max, n); step > hold*9/8/max+1 {
			t.Fatalf("step of %d ns at n=%d", step, n)
		}
	}
	for n, want := range map[int]uint64{0: hold, 1000: hold, 5000: hold * 55 / 100, 9000: hold / 10, 10000: 0} {
		if got := targetAge(hold, max, n); got != want {
			t.Errorf("targetAge at %d of %d is %d, want %d", n, max, got, want)
		}
	}
}
