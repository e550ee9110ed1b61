package kprobe

import (
	"strings"

	"github.com/quark-linux/quark/backends/internal/owner"
	"github.com/quark-linux/quark/internal/tracefs"
)

// Sweep removes the probes of processes that have ended without removing them, as far as this
// process may.
func Sweep() {
	fs, err := tracefs.Open()
	if err != nil {
		return
	}
	defer fs.Close()
	names, _ := fs.ProbeNames(tracefs.KprobeEvents)
	for _, name := range names {
		group, _, _ := strings.Cut(name, "/")
		if o, _, ok := owner.Parse(group); ok && o.Gone() {
			fs.RemoveProbe(tracefs.KprobeEvents, name)
		}
	}
}
