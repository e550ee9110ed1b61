// Package kernelversion compares versions of Linux by their first two numbers, and describes the
// running kernel.
package kernelversion

import (
	"fmt"
	"strconv"
	"strings"
)

// PreemptibleTracepoints is the first Linux in which programs on raw tracepoints can be preempted
// without PREEMPT_RT, see docs/architecture.md about twin programs.
const PreemptibleTracepoints = "7.0"

// AtLeast reports whether the running kernel has version x.y or later. It ignores features that a
// distribution has backported.
func AtLeast(version string) bool {
	release, err := Running()
	if err != nil {
		return false
	}
	older, err := Older(release, version)
	return err == nil && !older
}

// Older reports whether a release, as uname -r prints it, is older than version x.y.
func Older(release, version string) (bool, error) {
	r, err := majorMinor(release)
	if err != nil {
		return false, err
	}
	v, err := majorMinor(version)
	if err != nil {
		return false, err
	}
	return r < v, nil
}

// majorMinor returns 1000 x + y for a version that starts with x.y.
func majorMinor(version string) (int, error) {
	parts := strings.FieldsFunc(version, func(r rune) bool { return r < '0' || r > '9' })
	if len(parts) < 2 || version == "" || version[0] < '0' || version[0] > '9' {
		return 0, fmt.Errorf("version %q: want x.y", version)
	}
	x, err1 := strconv.Atoi(parts[0])
	y, err2 := strconv.Atoi(parts[1])
	if err1 != nil || err2 != nil || y > 999 {
		return 0, fmt.Errorf("version %q: want x.y", version)
	}
	return 1000*x + y, nil
}

// isRealtime reports whether a version, as uname -v prints it, is of a kernel with PREEMPT_RT.
// Before Linux 5.4 the flag has a space in it.
func isRealtime(version string) bool {
	return strings.Contains(version, "PREEMPT_RT") || strings.Contains(version, "PREEMPT RT")
}
