package otlp_test

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/quark-linux/quark/export/otlp"
	"github.com/quark-linux/quark/internal/retry"
)

// An exporter that has ended leaves no goroutine and no descriptor behind, whatever its target did.
func TestLeavesNothing(t *testing.T) {
	descriptors := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	r := newReceiver(t)
	goroutines, open := runtime.NumGoroutine(), descriptors()
	for i := range 20 {
		o := quick(r.url())
		if i%2 == 1 {
			o.URL, o.Grace = "http://127.0.0.1:1", 20*time.Millisecond
		}
		if err := flood(t, o, 100, func(int, *otlp.Exporter) {}).Close(); err != nil {
			t.Fatal(err)
		}
	}
	for range retry.For(time.Minute) {
		if runtime.NumGoroutine() <= goroutines && descriptors() <= open {
			return
		}
	}
	stacks := make([]byte, 1<<16)
	t.Fatalf("got %d goroutines, want %d; got %d descriptors, want %d\n%s", runtime.NumGoroutine(), goroutines, descriptors(), open, stacks[:runtime.Stack(stacks, true)])
}
