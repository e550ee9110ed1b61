package engine

import "testing"

// The age falls from the hold time to 0 without a jump, for each length of the buffer.
func TestTargetAge(t *testing.T) {
	for _, hold := range []uint64{uint64(MinHoldTime), uint64(DefaultHoldTime), uint64(MaxHoldTime)} {
		for _, max := range []int{1, 2, 3, 7, 10, 60, 1000, MaxMaxLength} {
			most := hold*10/9/uint64(max) + 1 // the slope
			stride := 1 + max/1000
			for n := 0; n < max+2; n += stride {
				step := targetAge(hold, max, n) - targetAge(hold, max, n+1)
				if max > 9 && step > most || step > hold || targetAge(hold, max, n) > hold || n >= max && targetAge(hold, max, n) != 0 {
					t.Fatalf("hold %d, max %d: the age falls by %d at %d", hold, max, step, n)
				}
			}
		}
	}
	for n, want := range map[int]uint64{0: 900, 900: 900, 1000: 900, 5500: 450, 9100: 90, 9999: 0, 10000: 0} {
		if got := targetAge(900, 10000, n); got != want {
			t.Errorf("age at %d of 10000: got %d, want %d", n, got, want)
		}
	}
}
