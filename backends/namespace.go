//go:build linux && (amd64 || arm64)

package backends

import (
	"errors"
	"fmt"
	"os"

	"github.com/quark-linux/quark/internal/kernelversion"
	"github.com/quark-linux/quark/internal/proctext"
)

// checkSystem returns an error in namespaces where /proc and system calls use other numbers than
// the kernel's events: one event would mix both.
func checkSystem() error {
	if _, err := os.Readlink("/proc/self"); err != nil {
		if err := kernelversion.Hidden(); err != nil {
			return err
		}
		return fmt.Errorf("%w: /proc is mounted for another pid namespace, without this process: mount the host's (mount -t proc proc /proc)", errors.ErrUnsupported)
	}
	for _, ns := range []struct{ kind, what, option string }{
		{"pid", "pids", "docker run --pid=host, hostPID: true in Kubernetes, nsenter --target 1 --pid"},
		{"user", "user and group ids", "docker run --userns=host, hostUsers: true in Kubernetes, nsenter --target 1 --user"},
		{"time", "start times", "nsenter --target 1 --time"},
	} {
		if !proctext.InInitialNamespace(ns.kind) {
			return fmt.Errorf("%w: this process is in its own %s namespace, where %s differ from the kernel's: run in the host's namespace (%s)",
				errors.ErrUnsupported, ns.kind, ns.what, ns.option)
		}
	}
	return nil
}
