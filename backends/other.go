//go:build !linux || !(amd64 || arm64)

package backends

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
)

// backends is empty. No backend was tested on other architectures of Linux: a field from a wrong
// register or offset would be wrong instead of unknown.
var backends map[Set]backend

func sweep() {}

func checkSystem() error {
	missing := "its backends need the Linux kernel"
	if runtime.GOOS == "linux" {
		missing = "its eBPF programs and kprobes are untested on other architectures"
	}
	return fmt.Errorf("%w: quark observes processes on linux/amd64 and linux/arm64, and this is %s/%s: %s. Recordings and tests (quark.New) need no backend",
		errors.ErrUnsupported, runtime.GOOS, runtime.GOARCH, missing)
}

// OpenProc opens /proc.
func OpenProc(engine.Source, *source.Environ) (Proc, error) { return nil, checkSystem() }
