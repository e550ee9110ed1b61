package cnproc

import (
	"bytes"
	"encoding/binary"
	"errors"
)

// The wire format is that of the kernel's include/uapi/linux/connector.h and
// cn_proc.h: nlmsghdr (16 bytes), cn_msg (20), proc_event (16 and a union of 24),
// all in the byte order of the machine.
const (
	sizeNlmsghdr  = 16
	sizeCnMsg     = 20
	offEvent      = sizeNlmsghdr + sizeCnMsg
	offUnion      = offEvent + 16
	nlmsgDone     = 3 // the connector sends single messages of this type
	cnIdxProc     = 1
	cnValProc     = 1
	maxCPU        = 1 << 16    // far above the kernel's NR_CPUS: 8192
	cpuOfAck      = ^uint32(0) // before Linux 4.10, whose answers are not numbered
	opListen      = 1          // PROC_CN_MCAST_LISTEN
	opIgnore      = 2          // PROC_CN_MCAST_IGNORE
	sizeMaxRecord = 256
)

// What is the kind of a proc_event and, or-ed, a set of kinds.
type What uint32

const (
	whatAck What = 0 // PROC_EVENT_NONE

	Fork        What = 0x00000001
	Exec        What = 0x00000002
	UID         What = 0x00000004
	GID         What = 0x00000040
	SID         What = 0x00000080
	Ptrace      What = 0x00000100
	Comm        What = 0x00000200
	NonzeroExit What = 0x20000000 // in a filter only: exits with another status than 0
	CoreDump    What = 0x40000000
	Exit        What = 0x80000000

	allKinds = Fork | Exec | UID | GID | SID | Ptrace | Comm | CoreDump | Exit
)

// message is a decoded proc_event. Which members have a meaning depends on what.
type message struct {
	what What
	cpu  uint32
	seq  uint32
	time uint64 // CLOCK_MONOTONIC ns

	tid, pid uint32 // of the process concerned, the child for Fork

	ptid, ppid uint32 // thread and process of the parent; 0 before Linux 4.18 but for Fork
	real, eff  uint32 // UID, GID
	ttid, tpid uint32 // Ptrace: tracer, 0 for detached
	comm       [16]byte
	status     uint32 // Exit: wait status
	ackErr     uint32 // whatAck
	ackAck     uint32 // whatAck: ack number of the request and one
}

// newComm is the comm of a Comm message.
func (m *message) newComm() []byte {
	comm, _, _ := bytes.Cut(m.comm[:], nul)
	return comm
}

var nul = []byte{0}

var (
	errNotOurs = errors.New("decode message: not of the proc connector")
	errDecode  = errors.New("decode proc_event: the message makes no sense")
)

// decode takes one datagram apart. Every length is checked; a kind that this
// package does not know is errDecode.
func (m *message) decode(b []byte) error {
	u32 := func(off int) uint32 { return binary.NativeEndian.Uint32(b[off:]) }
	if len(b) < offUnion {
		return errDecode
	}
	if n := u32(0); n < offUnion || uint64(n) > uint64(len(b)) {
		return errDecode
	} else {
		b = b[:n]
	}
	if binary.NativeEndian.Uint16(b[4:]) != nlmsgDone || u32(sizeNlmsghdr) != cnIdxProc || u32(sizeNlmsghdr+4) != cnValProc {
		return errNotOurs
	}
	if n := int(binary.NativeEndian.Uint16(b[sizeNlmsghdr+16:])); n < offUnion-offEvent || n > len(b)-offEvent {
		return errDecode
	} else {
		b = b[:offEvent+n]
	}
	*m = message{
		seq:  u32(sizeNlmsghdr + 8),
		what: What(u32(offEvent)),
		cpu:  u32(offEvent + 4),
		time: binary.NativeEndian.Uint64(b[offEvent+8:]),
	}
	need := 8
	switch m.what {
	case whatAck:
		need = 4
	case Fork, UID, GID, Ptrace:
		need = 16
	case Exec, SID, CoreDump:
	case Comm:
		need = 24
	case Exit:
		need = 16
	default:
		return errDecode
	}
	if len(b) < offUnion+need {
		return errDecode
	}
	if m.what == whatAck {
		m.ackErr, m.ackAck = u32(offUnion), u32(sizeNlmsghdr+12)
	}
	if m.cpu >= maxCPU && !(m.what == whatAck && m.cpu == cpuOfAck) {
		return errDecode
	}
	if m.what == whatAck {
		return nil
	}
	switch m.what {
	case Fork:
		m.ptid, m.ppid = u32(offUnion), u32(offUnion+4)
		m.tid, m.pid = u32(offUnion+8), u32(offUnion+12)
	default:
		m.tid, m.pid = u32(offUnion), u32(offUnion+4)
	}
	switch m.what {
	case UID, GID:
		m.real, m.eff = u32(offUnion+8), u32(offUnion+12)
	case Ptrace:
		m.ttid, m.tpid = u32(offUnion+8), u32(offUnion+12)
	case Comm:
		copy(m.comm[:], b[offUnion+8:])
	case CoreDump:
		if len(b) >= offUnion+16 {
			m.ptid, m.ppid = u32(offUnion+8), u32(offUnion+12)
		}
	case Exit:
		m.status = u32(offUnion + 8)
		if len(b) >= offUnion+24 {
			m.ptid, m.ppid = u32(offUnion+16), u32(offUnion+20)
		}
	}
	if m.tid == 0 || m.pid == 0 {
		return errDecode
	}
	return nil
}

// appendRequest appends the payload of a request: a cn_msg and the operation.
// Linux 6.6 and later take a set of kinds after it, 0 for all; before, a request
// of that length is ignored.
func appendRequest(b []byte, token, op uint32, withFilter bool, filter What) []byte {
	le := binary.NativeEndian
	n := uint16(4)
	if withFilter {
		n = 8
	}
	b = le.AppendUint32(b, cnIdxProc)
	b = le.AppendUint32(b, cnValProc)
	b = le.AppendUint32(b, 0)     // seq: the answer has the number of its CPU there
	b = le.AppendUint32(b, token) // ack: one more in the answer
	b = le.AppendUint16(b, n)
	b = le.AppendUint16(b, 0) // flags
	b = le.AppendUint32(b, op)
	if withFilter {
		b = le.AppendUint32(b, uint32(filter))
	}
	return b
}
