//go:build linux

package features

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/audit"
	"github.com/quark-linux/quark/backends/cnproc"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/internal/tracefs"
)

// noKprobesReason returns the reason why the kernel has no kprobes, or "".
func noKprobesReason() string {
	fs, err := tracefs.Open()
	if err != nil {
		return "tracefs: " + err.Error()
	}
	defer fs.Close()
	p, err := fs.Probes()
	if err != nil {
		return "built without CONFIG_KPROBE_EVENTS: " + err.Error()
	}
	p.Close()
	return ""
}

// noSyscallEventsReason returns the reason why the kernel has no tracepoints of system calls, or
// "".
func noSyscallEventsReason() string {
	fs, err := tracefs.Open()
	if err != nil {
		return "tracefs: " + err.Error()
	}
	defer fs.Close()
	if _, err := fs.ReadFile("events/syscalls/sys_exit_setsid/id"); err != nil {
		return "built without CONFIG_FTRACE_SYSCALLS"
	}
	return ""
}

// argument is the register of a function's first argument, in the syntax of probe definitions.
var argument = map[string]string{"amd64": "%di", "arm64": "%x0"}

// probe returns a function that adds a probe with the argument fetch, and removes it again.
func probe(fetch string) func() error {
	return func() (err error) {
		register, ok := argument[runtime.GOARCH]
		if !ok {
			return fmt.Errorf("the register of the first argument is unknown on %s", runtime.GOARCH)
		}
		fs, err := tracefs.Open()
		if err != nil {
			return err
		}
		defer fs.Close()
		probes, err := fs.Probes()
		if err != nil {
			return err
		}
		defer probes.Close()
		name := fmt.Sprintf("features_%d/probe", os.Getpid())
		switch err := probes.Write("p:" + name + " wake_up_new_task " + strings.ReplaceAll(fetch, "%ARG", register)); {
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.E2BIG):
			return fmt.Errorf("%w: %w: %s", errors.ErrUnsupported, err, probes.Why())
		case err != nil:
			return err
		}
		return probes.Write("-:" + name)
	}
}

// listenConnector listens to the proc connector.
func listenConnector() error {
	s, err := cnproc.Open(source.Options{}, cnproc.Options{})
	if err != nil {
		return err
	}
	return s.Close()
}

func openPidfd() error {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if errors.Is(err, unix.ENOSYS) {
		return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// addAuditRules adds the rules of the audit backend, in a guest where audit is enabled.
func addAuditRules() error {
	if os.Getenv("QUARK_INITRAMFS") != "1" {
		return fmt.Errorf("needs a guest to add audit rules: %w", errors.ErrUnsupported)
	}
	s, err := audit.Open(source.Options{}, audit.Options{})
	if err != nil {
		return err
	}
	return s.Close()
}

// noAuditReason returns the reason why audit is not in the kernel, disabled at boot, or disabled
// now; else "".
func noAuditReason() string {
	err := addAuditRules()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, unix.EPROTONOSUPPORT) {
		return err.Error()
	}
	return ""
}
