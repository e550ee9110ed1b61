//go:build linux && (amd64 || arm64)

package quark_test

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/fidelity/scenario"
)

// After the wall clock was set, events have the new wall time, and no process starts after its
// exit.
func TestWallClockSet(t *testing.T) {
	if !scenario.InGuest() {
		t.Skip("sets the wall clock: runs in guests only (make guest-test PKG=. RUN=TestWallClockSet)")
	}
	onEach(t, func(t *testing.T, opts quark.Options) {
		q := open(t, opts)
		exitOf(t, q, spawn(t))
		for _, step := range []time.Duration{2 * time.Hour, -2 * time.Hour} {
			stepClock(t, step)
			ev := exitOf(t, q, spawn(t))
			if off := time.Since(ev.Wall); off < -time.Second || off > deadline {
				t.Errorf("after a step of %v: got an event with an error of %v", step, off)
			}
			if !ev.Process.Known.Has(quark.FieldStart) {
				continue // the proc connector came too late to read it
			}
			if start, end := q.Clock().Started(ev.Process), q.Clock().At(ev.Process.Exit.Time); start.After(end) || end.Sub(start) > deadline {
				t.Errorf("after a step of %v: got a process from %v to %v", step, start, end)
			}
		}
	})
}

func stepClock(t *testing.T, by time.Duration) {
	t.Helper()
	var now unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_REALTIME, &now)
	if err == nil {
		now = unix.NsecToTimespec(now.Nano() + int64(by))
		err = unix.ClockSettime(unix.CLOCK_REALTIME, &now)
	}
	if err != nil {
		t.Fatalf("set the wall clock: %v", err)
	}
}
