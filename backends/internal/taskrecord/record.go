package taskrecord

import (
	"encoding/binary"
	"math"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/backends/internal/cputime"
	"github.com/quark-linux/quark/engine"
)

const (
	sizeNlmsghdr = 16
	sizeGenl     = 4 // struct genlmsghdr
	sizeStats    = int(unsafe.Sizeof(unix.Taskstats{}))
	minStats     = int(unsafe.Offsetof(unix.Taskstats{}.Cancelled_write_bytes))
)

// Those of ac_flag in the kernel's include/uapi/linux/acct.h.
const (
	flagForked = 0x01 // AFORK: it has not executed
	flagGroup  = 0x20 // AGROUP: the last thread of its process
)

// Record is what the kernel tells of a thread that has ended.
type Record struct {
	Seq uint32 // number among the records of its CPU
	PID uint32 // the thread
	// TGID is its process. It is 0 for unknown, unless Kernel.Marked is set or Last is.
	TGID    uint32
	Last    bool // it was the last thread of its process
	Several bool // and the process had more
	// Status is its wait status. Before Linux 5.19 that of a thread that is no leader reads as
	// 0, and it is never Forked.
	Status int32
	Forked bool // it has not executed
	PPID   uint32
	Comm   [16]byte
	// Age is the ns from the start of its process to the record, before Linux 5.19 from that of
	// the thread.
	Age uint64

	Usage          engine.Usage
	Known, Carried engine.Fields // those of engine.FieldsUsage
}

// stats is a struct taskstats, and the number that comes with it.
type stats struct {
	unix.Taskstats
	number uint32
}

// Decode decodes a message.
func (r *Record) Decode(b []byte, k *Kernel) error {
	if len(b) < sizeNlmsghdr+sizeGenl || binary.NativeEndian.Uint16(b[4:]) != k.Family || b[sizeNlmsghdr] != unix.TASKSTATS_CMD_NEW {
		return errDecode
	}
	n := binary.NativeEndian.Uint32(b)
	if n < sizeNlmsghdr+sizeGenl || uint64(n) > uint64(len(b)) {
		return errDecode
	}
	var own, all stats
	found, several := statsOf(b[sizeNlmsghdr+sizeGenl:n], &own, &all)
	*r = Record{
		Seq: binary.NativeEndian.Uint32(b[8:]), PID: own.Ac_pid, TGID: own.Ac_tgid, Last: own.Ac_flag&flagGroup != 0, Several: several,
		Status: int32(own.Ac_exitcode), Forked: own.Ac_flag&flagForked != 0, PPID: own.Ac_ppid,
		Age: nanoseconds(own.Ac_tgetime),
	}
	if !k.Marked {
		r.TGID, r.Last, r.Age = 0, several, nanoseconds(own.Ac_etime)
		if several {
			r.TGID = all.number
		}
	}
	if !found || r.PID == 0 || k.Marked && r.TGID == 0 || several && r.TGID == 0 {
		return errDecode
	}
	for i := range r.Comm[:len(r.Comm)-1] {
		if r.Comm[i] = byte(own.Ac_comm[i]); r.Comm[i] == 0 {
			break
		}
	}
	r.use(&own.Taskstats, &all.Taskstats)
	r.Known &= k.Kinds
	r.Carried &= k.Kinds
	return nil
}

// nanoseconds converts from microseconds.
func nanoseconds(us uint64) uint64 { return min(us, math.MaxUint64/2000) * 1000 }

// use sets what was used.
func (r *Record) use(own, all *unix.Taskstats) {
	times := own
	if r.Several {
		times = all
	}
	// The sums over several threads have both times on new kernels only.
	if times.Cpu_count > 0 && (times.Ac_utime != 0 || times.Ac_stime != 0 || times.Cpu_run_real_total == 0) {
		r.Known |= engine.FieldCPUTime.Set()
		t := cputime.Times{Run: times.Cpu_run_virtual_total, User: times.Ac_utime * 1000, System: times.Ac_stime * 1000}
		r.Usage.UserTime, r.Usage.SystemTime = t.Divide()
		// The kernel's division does not go back from what it has shown somebody before,
		// which is not known. Each thread's time is as of its end.
		if t.System != 0 || r.Several {
			r.Carried |= engine.FieldCPUTime.Set()
		}
	}
	r.Known |= engine.FieldPeakRSS.Set()
	r.Usage.PeakRSS = own.Hiwater_rss << 10
	if !r.Forked { // an image of before may have had more
		r.Carried |= engine.FieldPeakRSS.Set()
	}
	if !r.Several {
		r.Known |= engine.FieldIO.Set()
		r.Usage.RChar, r.Usage.WChar = own.Read_char, own.Write_char
		r.Usage.ReadBytes, r.Usage.WriteBytes = own.Read_bytes, own.Write_bytes
	}
}

// SetUsage sets what the process of an EXIT has used: r is the record of its last thread.
func (r *Record) SetUsage(ev *engine.RawEvent) {
	ev.Usage = r.Usage
	ev.Task.Known |= r.Known
	ev.Task.Carried |= r.Carried
	ev.Task.Truncated |= r.Known & engine.FieldIO.Set() // whole KiB
}

// UsageVia says where the fields that SetUsage sets are from, for a capability table.
var UsageVia = map[engine.Field]string{
	engine.FieldCPUTime: "taskstats.cpu_run_virtual_total, divided by ac_utime and ac_stime; carried if it was in the kernel or had several threads",
	engine.FieldPeakRSS: "taskstats.hiwater_rss; carried if it has executed, as it is of the last image",
	engine.FieldIO:      "taskstats.read_char, write_char, read_bytes, write_bytes, in whole KiB; unknown if it had several threads",
}

// statsOf finds the records of a thread and of its process among attributes.
func statsOf(b []byte, own, all *stats) (found, several bool) {
	for {
		kind, data, next, ok := nextAttribute(b)
		if !ok {
			return found, several
		}
		switch b = next; kind {
		case unix.TASKSTATS_TYPE_AGGR_PID:
			found = own.set(data)
		case unix.TASKSTATS_TYPE_AGGR_TGID:
			several = all.set(data)
		}
	}
}

// set sets s to what is among the attributes of b, and reports whether the structure is. That of an
// older kernel is shorter: the rest is 0.
func (s *stats) set(b []byte) bool {
	*s = stats{}
	for {
		kind, data, next, ok := nextAttribute(b)
		switch {
		case !ok:
			return false
		case kind == unix.TASKSTATS_TYPE_STATS:
			copy((*[sizeStats]byte)(unsafe.Pointer(&s.Taskstats))[:], data)
			return len(data) >= minStats
		case len(data) >= 4: // TASKSTATS_TYPE_PID or _TGID, which come first
			s.number = binary.NativeEndian.Uint32(data)
		}
		b = next
	}
}

// nextAttribute returns the first attribute of b, and what follows it.
func nextAttribute(b []byte) (kind uint16, data, next []byte, ok bool) {
	const header, typeMask, alignment = 4, 1<<14 - 1, 4
	if len(b) < header {
		return 0, nil, nil, false
	}
	n := int(binary.NativeEndian.Uint16(b))
	if n < header || n > len(b) {
		return 0, nil, nil, false
	}
	return binary.NativeEndian.Uint16(b[2:]) & typeMask, b[header:n], b[min((n+alignment-1)&^(alignment-1), len(b)):], true
}
