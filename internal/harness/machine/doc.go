// Package machine boots a kernel image with an initramfs under qemu, with one command for its init
// to run.
//
// A machine is put together from Parts, values that each add to qemu's command line and to the
// kernel's. Start boots one; its VM hands out the records that the guest writes to its second
// serial port, and ends the guest. What became of a guest is known from its records and its console
// only: qemu's exit status is 0 after a kernel panic, too.
//
// Nothing of a guest outlives the process that started it, however that ends: unpacked kernels are
// in memory, and the kernel kills qemu with its parent.
package machine
