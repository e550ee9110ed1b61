package machine

import (
	"os"
	"regexp"
	"runtime"

	"golang.org/x/sys/unix"
)

// Accel is what executes a machine's processors, by qemu's name.
type Accel string

// Values of Accel.
const (
	KVM Accel = "kvm"
	TCG Accel = "tcg" // software emulation
)

// fastest returns the fastest acceleration for machines of an architecture. On x86 /dev/kvm can
// exist although the processor has no virtualization.
func fastest(goarch string) Accel {
	if goarch != runtime.GOARCH || unix.Access("/dev/kvm", unix.R_OK|unix.W_OK) != nil {
		return TCG
	}
	cpu, _ := os.ReadFile("/proc/cpuinfo")
	if goarch == "amd64" && !regexp.MustCompile(`\b(vmx|svm)\b`).Match(cpu) {
		return TCG
	}
	return KVM
}
