package taskrecord

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Encode makes the message that Decode decodes, of a thread, and of its group if that is not nil,
// with so many bytes of each structure, 0 for all. It is for tests.
func (k *Kernel) Encode(size int, seq uint32, own, all *unix.Taskstats) []byte {
	if size == 0 {
		size = sizeStats
	}
	e := binary.NativeEndian
	attribute := func(kind uint16, data []byte) []byte {
		b := e.AppendUint16(e.AppendUint16(nil, uint16(4+len(data))), kind)
		return append(append(b, data...), make([]byte, -len(data)&3)...)
	}
	aggregate := func(kind, number uint16, s *unix.Taskstats, n uint32) []byte {
		data := (*[sizeStats]byte)(unsafe.Pointer(s))[:min(size, sizeStats)]
		return attribute(kind, append(attribute(number, e.AppendUint32(nil, n)), attribute(unix.TASKSTATS_TYPE_STATS, data)...))
	}
	b := []byte{unix.TASKSTATS_CMD_NEW, 1, 0, 0}
	b = append(b, aggregate(unix.TASKSTATS_TYPE_AGGR_PID, unix.TASKSTATS_TYPE_PID, own, own.Ac_pid)...)
	if all != nil {
		b = append(b, aggregate(unix.TASKSTATS_TYPE_AGGR_TGID, unix.TASKSTATS_TYPE_TGID, all, own.Ac_tgid)...)
	}
	header := e.AppendUint32(nil, uint32(sizeNlmsghdr+len(b)))
	header = e.AppendUint16(header, k.Family)
	header = e.AppendUint16(header, 0)
	header = e.AppendUint32(header, seq)
	return append(append(header, make([]byte, 4)...), b...)
}
