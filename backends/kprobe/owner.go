package kprobe

import (
	"errors"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/owner"
	"github.com/quark-linux/quark/internal/retry"
	"github.com/quark-linux/quark/internal/tracefs"
)

// Sweep removes probes that exited processes have left behind, if this process has the privileges.
// It waits up to a second for a killed process to exit.
func Sweep() {
	fs, err := tracefs.Open()
	if err != nil {
		return
	}
	defer fs.Close()
	for range retry.For(time.Second) {
		again := false
		names, _ := fs.ProbeNames(tracefs.KprobeEvents)
		for _, name := range names {
			group, _, _ := strings.Cut(name, "/")
			o, _, ok := owner.Parse(group)
			if !ok {
				continue
			}
			switch o.State() {
			case owner.Gone:
				// A perf event may stay open until a moment after the exit.
				again = errors.Is(fs.RemoveProbe(tracefs.KprobeEvents, name), unix.EBUSY) || again
			case owner.Ending:
				again = true
			}
		}
		if !again {
			return
		}
	}
}
