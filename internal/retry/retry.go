// Package retry repeats a check until its condition holds.
package retry

import (
	"iter"
	"time"
)

// For yields at once, and then every few milliseconds until limit has passed. The caller leaves the
// loop when its condition holds. Code after the loop handles the timeout.
func For(limit time.Duration) iter.Seq[int] {
	return func(yield func(int) bool) {
		for n, end := 0, time.Now().Add(limit); yield(n) && time.Now().Before(end); n++ {
			time.Sleep(2 * time.Millisecond)
		}
	}
}
