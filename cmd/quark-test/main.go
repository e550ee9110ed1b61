package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/backends/ebpf"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/internal/harness/testrun"
	"github.com/quark-linux/quark/internal/proctext"
	"github.com/quark-linux/quark/internal/seccompfail"
)

const about = `Runs the tests named, or all, on the backends chosen, or eBPF and the proc
connector. Names may be patterns as in t_exit*. The exit status is the number of
tests that failed, at most 100; 101 is wrong usage.`

func main() {
	// Children die with the thread that has started them.
	runtime.LockOSThread()
	scenario.Main()
	if err := seccompfail.FromEnv(); err != nil {
		fmt.Fprintln(os.Stderr, "quark-test:", err)
		os.Exit(101)
	}
	suite := &testrun.Suite{
		Program: "quark-test", Long: about, Tests: tests, Share: share, Env: guestEnv(), Unfit: unfit, Keep: keepTracepoints,
		Backends: []testrun.Backend{
			{Name: "ebpf", Letter: "b", Default: true},
			{Name: "kprobe", Letter: "k"},
			{Name: "cnproc", Letter: "c", Default: true},
			{Name: "audit"},
		},
	}
	suite.Child()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	status := suite.Main(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// guestEnv turns off what costs an emulated processor most: preemption by signals, and
// garbage collection in processes that live for some seconds.
func guestEnv() []string {
	if !scenario.InGuest() {
		return nil
	}
	return []string{"GODEBUG=asyncpreemptoff=1", "GOGC=off", "GOMEMLIMIT=64MiB"}
}

// keepTracepoints has a queue open while tests run, which makes this process a user of the
// tracepoints of system calls that the eBPF backend needs where there are no kprobes. The kernel
// waits some 60 ms for each that loses its last user: a third of the time of all tests.
func keepTracepoints() (release func()) {
	if _, err := os.Stat("/sys/bus/event_source/devices/kprobe/type"); err != nil {
		opts := quark.Options{Backends: backends.EBPF, Strict: true, EBPF: ebpf.Options{RingSize: 1}}
		if q, err := quark.Open(opts); err == nil {
			return func() { q.Close() }
		}
	}
	return func() {}
}

// unfit returns why this user can't run tests here, or "".
func unfit() string {
	if os.Geteuid() != 0 {
		return "needs root"
	}
	var s unix.Statfs_t
	if unix.Statfs("/proc", &s) != nil || s.Type != unix.PROC_SUPER_MAGIC {
		return "needs /proc: it is not mounted"
	}
	if !proctext.InInitialNamespace("pid") {
		return "needs the initial pid namespace: the kernel's pids mean nothing in this one"
	}
	return ""
}
