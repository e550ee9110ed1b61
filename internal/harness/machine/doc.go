// Package machine boots a kernel image with an initramfs, whose init runs one command, under qemu.
//
// A machine consists of Parts, each of which adds arguments to the command lines of qemu and of the
// kernel. Start boots a machine. The VM that it returns reads the records that the guest writes to
// the second serial port, and can stop the guest. Only records and console show how a guest ended:
// qemu's exit status is 0 even after a kernel panic.
//
// When the process that started a guest ends in any way, nothing of the guest remains: unpacked
// kernels are in memory, and the kernel kills qemu with its parent.
package machine
