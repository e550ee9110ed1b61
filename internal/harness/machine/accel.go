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

// Accel is what executes a machine's processors, by qemu's name.
type Accel string

// Values of Accel.
const (
	KVM Accel = "kvm"
	TCG Accel = "tcg" // software emulation
)

// x86KVM reports whether KVM works on x86: the processor has virtualization, and a test machine
// runs.
var x86KVM = sync.OnceValue(func() bool {
	b, err := os.ReadFile("/proc/cpuinfo")
	return err == nil && regexp.MustCompile(`\b(vmx|svm)\b`).Match(b) && runs("qemu-system-x86_64", KVM)
})

// fastest returns the fastest working acceleration for machines of an architecture. KVM may fail
// although /dev/kvm exists; on arm64 there is no quick test of this.
func fastest(goarch string) Accel {
	if goarch == runtime.GOARCH && unix.Access("/dev/kvm", unix.R_OK|unix.W_OK) == nil && (goarch != "amd64" || x86KVM()) {
		return KVM
	}
	return TCG
}

// runs reports whether an x86 machine runs code. The machine's firmware only writes 0x10 to the
// debug exit port, so that qemu exits with status 2*0x10+1.
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
