package main

import (
	"os"

	"github.com/quark-linux/quark/internal/perf"
	"github.com/quark-linux/quark/internal/tracefs"
)

// keepTracepoints has this process use the tracepoints of system calls that the eBPF
// backend needs where there are no kprobes. The kernel waits some 60 ms whenever one
// loses its last user, one after the other: without this the closings of all tests
// would take a third of the time.
func keepTracepoints() (release func()) {
	var kept []*perf.Event
	release = func() {
		for _, e := range kept {
			e.Close()
		}
	}
	if _, err := os.Stat("/sys/bus/event_source/devices/kprobe/type"); err == nil {
		return release
	}
	fs, err := tracefs.Open()
	if err != nil {
		return release // what cannot be kept is waited for
	}
	defer fs.Close()
	for _, name := range []string{"setuid", "setreuid", "setresuid", "setgid", "setregid", "setresgid", "setsid"} {
		event, err := fs.Event("syscalls", "sys_exit_"+name)
		if err != nil {
			continue
		}
		if e, err := perf.Open(event.ID, perf.Options{}); err == nil {
			kept = append(kept, e)
		}
	}
	return release
}
