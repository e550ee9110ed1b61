package ebpf

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// plainMap is a map that bpf(2) reads and writes, without memory of its own for each call.
type plainMap struct {
	fd   int
	key  uint32
	attr elementAttr
}

// elementAttr is the member of union bpf_attr (linux/bpf.h) for calls about an element.
type elementAttr struct {
	fd         uint32
	_          uint32
	key, value unsafe.Pointer
	flags      uint64
}

// read reads an element into value, which has its size.
func (m *plainMap) read(key uint32, value []byte) error {
	return m.call(unix.BPF_MAP_LOOKUP_ELEM, key, value)
}

// write writes an element.
func (m *plainMap) write(key uint32, value []byte) error {
	return m.call(unix.BPF_MAP_UPDATE_ELEM, key, value)
}

func (m *plainMap) call(command uintptr, key uint32, value []byte) error {
	m.key = key
	m.attr = elementAttr{fd: uint32(m.fd), key: unsafe.Pointer(&m.key), value: unsafe.Pointer(&value[0])}
	_, _, errno := unix.Syscall(unix.SYS_BPF, command, uintptr(unsafe.Pointer(&m.attr)), unsafe.Sizeof(m.attr))
	if errno != 0 {
		return errno
	}
	return nil
}
