package quark

import (
	"encoding/hex"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/clock"
)

// systemClock measures the offsets between CLOCK_MONOTONIC, CLOCK_BOOTTIME and the wall clock.
func systemClock() engine.Clock {
	var c engine.Clock
	// The other clocks are read between two readings of CLOCK_MONOTONIC. Their distance bounds
	// the error, so the attempt with the shortest one counts.
	best := time.Duration(1<<63 - 1)
	for range 10 {
		before, boot, now, after := clock.Monotonic(), clock.Boottime(), time.Now(), clock.Monotonic()
		if gap := time.Duration(after - before); gap < best {
			best = gap
			middle := before + (after-before)/2
			c.Wall = now.Round(0).Add(-time.Duration(middle))
			c.WallError = gap/2 + 1
			c.BootOffset = boot - min(middle, boot)
		}
	}
	if c.BootOffset < uint64(2*best) {
		c.BootOffset = 0 // never suspended: the offset is the time between the readings
	}
	c.Now = clock.Monotonic
	c.Host = thisHost()
	return c
}

// thisHost returns what is known of this machine.
func thisHost() engine.Host {
	read := func(name string) string {
		b, _ := os.ReadFile(name) // what can't be read is unknown
		return strings.TrimSpace(string(b))
	}
	const kernel = "/proc/sys/kernel/"
	name, _ := os.Hostname()
	return engine.Host{
		Name: name, MachineID: machineID(read("/etc/machine-id")), BootID: read(kernel + "random/boot_id"), Kernel: read(kernel + "osrelease"),
		Arch: runtime.GOARCH,
	}
}

// machineID returns what /etc/machine-id has, "" where that is no id: before its first boot each
// machine that was made of an image has none there, or "uninitialized".
func machineID(text string) string {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != 16 {
		return ""
	}
	return text
}
