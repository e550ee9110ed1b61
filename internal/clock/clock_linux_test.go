package clock

import (
	"testing"

	"golang.org/x/sys/unix"
)

// Monotonic is at most a millisecond ahead of the kernel's clock, and never decreases.
func TestMonotonic(t *testing.T) {
	last := uint64(0)
	for range 1000 {
		before, now, after := read(unix.CLOCK_MONOTONIC), Monotonic(), read(unix.CLOCK_MONOTONIC)
		if now < last || now < before || now > after+1e6 {
			t.Fatalf("got %d after %d, want a time between %d and %d", now, last, before, after)
		}
		last = now
	}
}
