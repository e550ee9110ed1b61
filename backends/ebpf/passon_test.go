package ebpf

import (
	"testing"

	"github.com/quark-linux/quark/backends/internal/perf"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/internal/tracefs"
)

// The source does not take events from other readers of the same tracepoints, which use
// perf_event_open(2).
func TestPassOn(t *testing.T) {
	unpreempted(t)
	openShared(t, source.Options{Kinds: source.DefaultKinds | engine.EventExecFailed}, Options{})
	fs, err := tracefs.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer fs.Close()
	cpus, err := scenario.CPUs()
	if err != nil {
		t.Fatal(err)
	}
	run := processRunner(t)
	for _, at := range []struct{ group, name string }{
		{"sched", "sched_process_exit"}, {"sched", "sched_process_exec"}, {"syscalls", "sys_exit_execve"},
	} {
		event, err := fs.Event(at.group, at.name)
		if err != nil {
			t.Fatal(err)
		}
		var hits uint64
		var events []*perf.Event
		for _, cpu := range cpus {
			e, err := perf.Open(event.ID, perf.Options{CPU: cpu, Watermark: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			if err := e.Enable(); err != nil {
				t.Fatal(err)
			}
			events = append(events, e)
		}
		run(10)
		for _, e := range events {
			n, err := e.Count()
			if err != nil {
				t.Fatal(err)
			}
			hits += n
		}
		if hits < 10 {
			t.Errorf("%s: another reader got %d events, want 10", at.name, hits)
		}
	}
}
