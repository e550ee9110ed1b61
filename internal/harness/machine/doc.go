// Package machine boots a kernel image with an initramfs under qemu, with one command for its init
// to run.
//
// A machine consists of Parts, values that each add to the command lines of qemu and of the kernel.
// Start boots one; its VM returns the records that the guest writes to its second serial port, and
// stops the guest. Only records and console show how a guest ended: qemu's exit status is 0 after a
// kernel panic, too.
//
// A guest leaves no trace after the process that started it, however that ends: unpacked kernels
// are in memory, and the kernel kills qemu with its parent.
package machine
