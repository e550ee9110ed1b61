package cnproc

import (
	"encoding/binary"
	"errors"
)

// The wire format is defined by the kernel's include/uapi/linux/connector.h and cn_proc.h:
// nlmsghdr (16 bytes), cn_msg (20), proc_event (16 and a union of 24), in native byte order.
const (
	sizeNlmsghdr  = 16
	sizeCnMsg     = 20
	offEvent      = sizeNlmsghdr + sizeCnMsg
	offUnion      = offEvent + 16
	sizeEvent     = 16 + 24 // for all kinds
	sizeMessage   = offEvent + sizeEvent
	nlmsgDone     = 3 // the type of all messages
	cnIdxProc     = 1
	cnValProc     = 1
	maxCPU        = 1 << 16 // far above the kernel's largest NR_CPUS, 8192
	opListen      = 1       // PROC_CN_MCAST_LISTEN
	opIgnore      = 2       // PROC_CN_MCAST_IGNORE
	sizeMaxRecord = 256
)

// What names a kind of proc_event.
type What uint32

// The kinds of message.
const (
	whatAck What = 0 // PROC_EVENT_NONE

	Fork     What = 0x00000001
	Exec     What = 0x00000002
	UID      What = 0x00000004
	GID      What = 0x00000040
	SID      What = 0x00000080
	Ptrace   What = 0x00000100
	Comm     What = 0x00000200
	CoreDump What = 0x40000000
	Exit     What = 0x80000000
)

// message is a decoded proc_event. The kind, what, decides which members are valid.
type message struct {
	what What
	cpu  uint32
	seq  uint32
	time uint64 // CLOCK_MONOTONIC ns

	tid, pid uint32 // the process that the event is about; the child for Fork

	ppid       uint32 // Fork, CoreDump, Exit: the parent
	parentTID  uint32 // Fork: its thread
	exitSignal int32  // Exit: -1 for a thread that is not the leader
	// UID, GID: the real and the effective id. Ptrace: the tracer's thread and process, or 0.
	// whatAck: the error, and the request's ack number + 1.
	args    [2]uint32
	comm    [16]byte
	status  uint32 // Exit: wait status
	former  bool   // Exit: of a former leader; the thread that executes has its number
	threads bool   // the process may have, or have had, other threads since its exec
}

// reaped reports whether the process of an Exit of a leader had been waited for when it was made.
// If not, it still had its number at the time of the message. The kernel gives no parent then;
// init, which has none, does not end.
func (m *message) reaped() bool { return m.ppid == 0 }

var (
	errNotOurs = errors.New("decode message: not from the proc connector")
	errDecode  = errors.New("decode proc_event: invalid message")
)

// decode decodes one datagram. It checks every length; an unknown kind is errDecode.
func (m *message) decode(b []byte) error {
	u32 := func(off int) uint32 { return binary.NativeEndian.Uint32(b[off:]) }
	if len(b) < sizeMessage || u32(0) < sizeMessage || uint64(u32(0)) > uint64(len(b)) {
		return errDecode
	}
	if binary.NativeEndian.Uint16(b[4:]) != nlmsgDone || u32(sizeNlmsghdr) != cnIdxProc || u32(sizeNlmsghdr+4) != cnValProc {
		return errNotOurs
	}
	if n := int(binary.NativeEndian.Uint16(b[sizeNlmsghdr+16:])); n < sizeEvent || n > int(u32(0))-offEvent {
		return errDecode
	}
	*m = message{
		seq:  u32(sizeNlmsghdr + 8),
		what: What(u32(offEvent)),
		cpu:  u32(offEvent + 4),
		time: binary.NativeEndian.Uint64(b[offEvent+8:]),
	}
	if m.cpu >= maxCPU {
		return errDecode
	}
	word := func(n int) uint32 { return u32(offUnion + 4*n) }
	m.tid, m.pid = word(0), word(1)
	switch m.what {
	case whatAck:
		m.tid, m.pid = 0, 0
		m.args = [2]uint32{word(0), u32(sizeNlmsghdr + 12)}
		return nil
	case Fork:
		m.parentTID, m.ppid, m.tid, m.pid = word(0), word(1), word(2), word(3)
	case UID, GID, Ptrace:
		m.args = [2]uint32{word(2), word(3)}
	case Comm:
		copy(m.comm[:], b[offUnion+8:])
	case CoreDump:
		m.ppid = word(3)
	case Exit:
		m.status, m.exitSignal, m.ppid = word(2), int32(word(3)), word(5)
		m.former = m.tid == m.pid && m.exitSignal < 0
	case Exec, SID:
	default:
		return errDecode
	}
	if m.tid == 0 || m.pid == 0 {
		return errDecode
	}
	return nil
}

// request returns a message with an operation.
func request(token, op uint32) []byte {
	b := make([]byte, offEvent+4)
	put := func(off int, v uint32) { binary.NativeEndian.PutUint32(b[off:], v) }
	put(0, uint32(len(b)))
	put(4, nlmsgDone)
	put(sizeNlmsghdr, cnIdxProc)
	put(sizeNlmsghdr+4, cnValProc)
	put(sizeNlmsghdr+12, token) // token + 1 in the answer
	binary.NativeEndian.PutUint16(b[sizeNlmsghdr+16:], 4)
	put(offEvent, op)
	return b
}
