package ebpf

import (
	"sync/atomic"
	"testing"

	"github.com/quark-linux/quark/backends/source"
)

// queuedIn returns how many bytes the fullest of the rings holds.
func queuedIn(b buffer) (most uint64) {
	switch b := b.(type) {
	case *ring:
		return atomic.LoadUint64(b.producer) - b.at
	case *perfBuffers:
		for _, c := range b.cpus {
			most = max(most, uint64(c.ring.Pending()))
		}
	}
	return most
}

// usePerf makes sources read perf buffers, with maps that can be mapped or without.
func usePerf(t *testing.T, plain bool) {
	forced, hideMappable = source.BufferPerf, plain
	t.Cleanup(func() { forced, hideMappable = source.BufferAuto, false })
}

// Perf buffers do what the ring does.
func TestPerfBuffers(t *testing.T) {
	usePerf(t, false)
	t.Run("conform", TestConform)
	t.Run("privileges dropped", TestPrivilegesDropped)
	t.Run("kinds", TestKinds)
}

// The reader of perf buffers, with maps that can be mapped and without.
func TestPerfReader(t *testing.T) {
	for name, plain := range map[string]bool{"mapped": false, "plain maps": true} {
		t.Run(name, func(t *testing.T) {
			usePerf(t, plain)
			t.Run("loss", TestLoss)
			t.Run("arm", TestArm)
			t.Run("filling", TestFillingRingWakes)
			t.Run("loss is a gap", TestLossIsAGap)
			t.Run("gap in its place", TestGapInItsPlace)
			t.Run("nothing left", TestNothingLeft)
			t.Run("populate", TestPopulate)
		})
	}
}
