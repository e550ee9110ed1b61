package machine

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Accel is how a machine's processors run.
type Accel string

// The accelerations of qemu that are used.
const (
	KVM Accel = "kvm"
	TCG Accel = "tcg" // software emulation
)

// probed has a function for each architecture that probes KVM once.
var probed = map[string]func() bool{
	"amd64": sync.OnceValue(func() bool { return virtualizes() && runs("qemu-system-x86_64", KVM) }),
	"arm64": sync.OnceValue(func() bool { return true }), // there is no such quick probe
}

// fastest returns the acceleration that works for machines of an architecture. /dev/kvm may be
// there and run no guest.
func fastest(goarch string) Accel {
	if goarch == runtime.GOARCH && unix.Access("/dev/kvm", unix.R_OK|unix.W_OK) == nil && probed[goarch]() {
		return KVM
	}
	return TCG
}

// virtualizes reports whether the host's x86 processor says that it can run guests.
func virtualizes() bool {
	b, err := os.ReadFile("/proc/cpuinfo")
	return err == nil && regexp.MustCompile(`\b(vmx|svm)\b`).Match(b)
}

// runs reports whether an x86 machine runs code: one whose whole firmware writes 0x10 to the debug
// exit port, from which qemu exits with 2*0x10+1.
func runs(qemu string, accel Accel) bool {
	firmware := make([]byte, 64<<10)
	// The CPU starts 16 bytes before the end: mov al, 0x10; out 0xf4, al; hlt.
	copy(firmware[len(firmware)-16:], "\xb0\x10\xe6\xf4\xf4")
	f, err := memoryFile("firmware", firmware)
	if err != nil {
		return false
	}
	defer f.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, qemu, "-accel", string(accel), "-nodefaults", "-display", "none",
		"-bios", inheritedPath(0), "-device", "isa-debug-exit,iobase=0xf4,iosize=4")
	cmd.ExtraFiles = []*os.File{f}
	cmd.Run()
	return cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == 33
}
