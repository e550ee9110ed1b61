package tracepoint

import (
	"bytes"
	"encoding/binary"

	"github.com/quark-linux/quark/backends/internal/perf"
)

// record is what a sample tells. Its text aliases the ring.
type record struct {
	what   what
	time   uint64
	cpu    uint32
	pid    uint32 // the process that hit the tracepoint, or has the new name
	tid    uint32 // and its thread
	task   uint32 // the thread that the record is about
	old    uint32 // executed: the thread that called execve
	flags  uint64 // newTask: of clone(2)
	dead   bool   // ended: no thread of the group is left
	errno  uint16 // execEnds, execAtEnds
	byExec bool   // renamed: by an execve, which can fail yet
	text   []byte // the name of task, or for executed the path as it was asked for
}

const (
	cloneThread = 0x10000 // CLONE_THREAD
	cloneParent = 0x8000  // CLONE_PARENT

	// maxErrno is the largest error that a program gets. With others the kernel makes the call
	// again, or ends the process.
	maxErrno = 511
)

// recordID returns the ID of the tracepoint that made a raw record of at least two bytes.
func recordID(raw []byte) uint16 { return binary.NativeEndian.Uint16(raw) }

// thread reports whether the new task is one more of the process that made it.
func (r *record) thread() bool { return r.flags&cloneThread != 0 }

// decode decodes a sample of the tracepoint with this layout. ok is false if the lengths do not add
// up.
func (l *layout) decode(s *perf.Sample, r *record) (ok bool) {
	raw := s.Raw
	if len(raw) < l.size {
		return false
	}
	*r = record{what: l.what, time: s.Time, cpu: s.CPU, pid: s.PID, tid: s.TID}
	r.task, r.old = uint32(l.pid.number(raw)), uint32(l.old.number(raw))
	r.flags, r.dead = l.flags.number(raw), l.dead.number(raw) != 0
	if l.result.size > 0 {
		if result := int64(l.result.number(raw)); -maxErrno <= result && result < 0 {
			r.errno = uint16(-result)
		}
	}
	if l.text.size > 0 {
		r.text, ok = l.text.string(raw)
		return ok
	}
	return true
}

// number returns an unsigned number, 0 if there is none.
func (p place) number(raw []byte) uint64 {
	b := raw[p.offset:][:p.size]
	switch p.size {
	case 1:
		return uint64(b[0])
	case 4:
		return uint64(binary.NativeEndian.Uint32(b))
	case 8:
		return binary.NativeEndian.Uint64(b)
	}
	return 0
}

// string returns a text without its NUL, which has to be there.
func (p place) string(raw []byte) (text []byte, ok bool) {
	b := raw[p.offset:][:p.size]
	if p.size == sizeDynamic {
		at := binary.NativeEndian.Uint32(b)
		offset, size := int(at&0xffff), int(at>>16)
		if offset+size > len(raw) {
			return nil, false
		}
		b = raw[offset:][:size]
	}
	end := bytes.IndexByte(b, 0)
	if end < 0 {
		return nil, false
	}
	return b[:end:end], true
}
