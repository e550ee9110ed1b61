package ebpf

import (
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// programInfo is the beginning of struct bpf_prog_info (linux/bpf.h). The kernel fills in only the
// members that its version has.
type programInfo struct {
	_               [208]byte
	recursionMisses uint64
}

// infoAttr is the member of union bpf_attr for BPF_OBJ_GET_INFO_BY_FD.
type infoAttr struct {
	fd, length uint32
	info       unsafe.Pointer
}

// countSkips returns how often the kernel skipped the programs. The kernel counts this from 5.12
// on. Until 6.0 only a privileged process can read the count.
//
// The system calls do not block, and bypass Go's scheduler: a system call that the scheduler
// notices wakes the runtime's monitor thread, which costs more than the call.
func countSkips(programs []*ebpf.Program) (n uint64) {
	for _, p := range programs {
		// The struct must be empty for each call: the kernel also reads buffer sizes from
		// it.
		var info programInfo
		attr := infoAttr{fd: uint32(p.FD()), length: uint32(unsafe.Sizeof(info)), info: unsafe.Pointer(&info)}
		_, _, errno := unix.RawSyscall(unix.SYS_BPF, unix.BPF_OBJ_GET_INFO_BY_FD, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
		if errno == 0 {
			n += info.recursionMisses
		}
	}
	return n
}
