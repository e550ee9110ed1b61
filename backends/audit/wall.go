package audit

import (
	"github.com/quark-linux/quark/internal/auditrecord"
	"github.com/quark-linux/quark/internal/clock"
)

// wallClock converts the stamps of records, which use CLOCK_REALTIME.
type wallClock struct {
	offset int64  // CLOCK_REALTIME less CLOCK_MONOTONIC
	slack  uint64 // ns that a stamp can be behind the begin of its call
}

// wallError is the largest error, in ns, of the offset that converts the stamps.
const wallError = 500_000

// newWallClock allows for two ticks and the rest of a millisecond. A tick can be missing when the
// task of counting time moves to another CPU.
func newWallClock() (w wallClock) {
	w.offset, _ = clock.WallOffset()
	w.slack = 2*clock.Tick() + 1_000_000 + wallError
	return w
}

// update follows the wall clock. It ignores a small difference, which is an error of measurement.
func (w *wallClock) update() {
	offset, error := clock.WallOffset()
	if d := offset - w.offset; error <= wallError/2 && (d > wallError || d < -wallError) {
		w.offset = offset
	}
}

// stamp returns the time of a record that was just read.
func (w *wallClock) stamp(r *auditrecord.Record, now uint64) uint64 {
	return uint64(min(max(int64(r.Time)*1_000_000-w.offset, 0), int64(now)))
}
