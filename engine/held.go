package engine

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// held is a raw event in the buffer. The memory of an event has left the CPU's caches since its
// last use, so its size determines the cost. Therefore rare members are left out, members shared by
// most events are stored once, and events lie next to their neighbours in time.
type held struct {
	// What the buffer reads and writes of an event and its neighbours comes first: it is
	// 64 bytes, one cache line, on 64-bit machines.

	Kind   Kind
	Thread bool
	Image  uint16
	PID    uint32
	Time   uint64
	serial uint64  // order of arrival, breaks ties of Time
	links  [2]link // its neighbours
	queue  *queue  // of its pid

	block         *block    // that it is in
	whole         *RawEvent // the event itself, if pack had no place for all of it; else
	inherited     *Inherited
	known, cached Fields
	start, read   uint64
	startUnit     uint32
	from, to      uint16 // what else there is of it, in block.rest

	heldNumbers
}

// heldNumbers are the numbers of an event that most events have.
type heldNumbers struct {
	tid, cpu, creator            uint32
	ppid, pgid, sid              uint32
	parentTID, nsPID, exitSignal uint32
	idChange                     IDChange
}

// A block has the events that came one after the other. It is 10 KiB, and used again when the last
// of its events has left.
type block struct {
	events [blockEvents]held
	rest   [blockRest]byte // the texts of its events, and what only EXECs and EXITs have
	used   int             // of events
	filled int             // of rest
	live   int             // how many of its events are held
}

const (
	blockEvents = 32
	blockRest   = 4840
)

// next returns the next event of the pid, or nil.
func (h *held) next() *held { return h.links[linkPID].after }

// before reports whether h comes before o in the buffer.
func (h *held) before(o *held) bool {
	return h.Time < o.Time || h.Time == o.Time && h.serial < o.serial
}

// first returns the first field of s, which is not empty.
func (s Fields) first() Field { return Field(bits.TrailingZeros64(uint64(s))) }

// maxFixed is the most that pack adds to the texts of an event.
const maxFixed = 12 + 7*8 + 40 + 4*int(numVars)

// hold returns a place for r in the buffer, with a packed copy of r, or r itself.
func (b *Buffer) hold(r *RawEvent) *held {
	at := b.filling
	need := maxFixed + len(r.data)
	if at == nil || at.used == blockEvents || need > blockRest-at.filled && at.used > 0 {
		at = b.blocks.Get()
		b.filling = at
	}
	h := &at.events[at.used]
	at.used++
	at.live++
	h.Kind, h.Thread, h.Image, h.PID, h.Time, h.block = r.Kind, r.Thread, r.Image, r.PID, r.Time, at
	if t := &r.Task; r.Gap != nil || r.Errno != 0 || r.Tracer.PID|r.Tracer.TID != 0 || t.Truncated != 0 ||
		t.StartUnit > math.MaxUint32 || need > blockRest-at.filled {
		h.whole = r
		return h
	}
	b.pack(h, r)
	b.Release(r)
	return h
}

// pack writes the contents of r to h, without Seq, which is for recordings.
func (b *Buffer) pack(h *held, r *RawEvent) {
	t := &r.Task
	h.inherited = b.inherited.get(&t.Inherited)
	h.known, h.cached, h.start, h.startUnit, h.read = t.Known, t.Cached, t.Start, uint32(t.StartUnit), r.Read
	h.tid, h.cpu, h.creator, h.idChange = r.TID, r.CPU, r.Creator, r.IDChange
	h.ppid, h.pgid, h.sid, h.parentTID, h.nsPID, h.exitSignal = t.PPID, t.PGID, t.SID, t.ParentTID, t.NSPID, t.ParentSignal

	at, order := h.block, binary.NativeEndian
	to := at.rest[:at.filled]
	if t.Known.Has(FieldExit) {
		to = order.AppendUint64(order.AppendUint32(to, uint32(t.Exit.WaitStatus)), t.Exit.Time)
	}
	if u := &r.Usage; t.Known&FieldsUsage != 0 {
		for _, n := range [...]uint64{u.UserTime, u.SystemTime, u.PeakRSS, u.RChar, u.WChar, u.ReadBytes, u.WriteBytes} {
			to = order.AppendUint64(to, n)
		}
	}
	if x := &t.ExeFile; t.Known.Has(FieldExeFile) {
		to = order.AppendUint64(order.AppendUint64(to, x.Inode), uint64(x.Ctime))
		to = order.AppendUint32(order.AppendUint32(order.AppendUint32(to, x.Device), x.UID), x.GID)
		to = order.AppendUint32(order.AppendUint32(order.AppendUint16(to, x.Mode), r.Before.EUID), r.Before.EGID)
		to = append(to, flag(x.Removed), flag(r.Before.Known))
	}
	for texts := t.Known & textFields; texts != 0; texts &= texts - 1 {
		v := r.vars[varOf(texts.first())]
		to = order.AppendUint32(to, v.off<<16|v.len)
	}
	to = append(to, r.data...)
	h.from, h.to = uint16(at.filled), uint16(len(to))
	at.filled = len(to)
}

// flag returns 1 if b is set.
func flag(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// open returns the event that h is, which the caller gives to Release when h has left the buffer,
// or to close.
func (b *Buffer) open(h *held) *RawEvent {
	if h.whole != nil {
		return h.whole
	}
	r := b.Reserve()
	t := &r.Task
	r.Kind, r.Thread, r.Image, r.PID, r.Time = h.Kind, h.Thread, h.Image, h.PID, h.Time
	r.TID, r.CPU, r.Creator, r.IDChange, r.Read = h.tid, h.cpu, h.creator, h.idChange, h.read
	t.Known, t.Cached, t.Start, t.StartUnit = h.known, h.cached, h.start, uint64(h.startUnit)
	t.PPID, t.PGID, t.SID, t.ParentTID, t.NSPID, t.ParentSignal = h.ppid, h.pgid, h.sid, h.parentTID, h.nsPID, h.exitSignal
	t.Inherited = *h.inherited

	from, order := h.block.rest[h.from:h.to], binary.NativeEndian
	if t.Known.Has(FieldExit) {
		t.Exit = Exit{int32(order.Uint32(from)), order.Uint64(from[4:])}
		from = from[12:]
	}
	if u := &r.Usage; t.Known&FieldsUsage != 0 {
		for i, n := range [...]*uint64{&u.UserTime, &u.SystemTime, &u.PeakRSS, &u.RChar, &u.WChar, &u.ReadBytes, &u.WriteBytes} {
			*n = order.Uint64(from[8*i:])
		}
		from = from[7*8:]
	}
	if t.Known.Has(FieldExeFile) {
		t.ExeFile = ExeFile{order.Uint64(from), int64(order.Uint64(from[8:])), order.Uint32(from[16:]), order.Uint32(from[20:]),
			order.Uint32(from[24:]), order.Uint16(from[28:]), from[38] != 0}
		r.Before.EUID, r.Before.EGID, r.Before.Known = order.Uint32(from[30:]), order.Uint32(from[34:]), from[39] != 0
		from = from[40:]
	}
	for texts := t.Known & textFields; texts != 0; texts &= texts - 1 {
		v := order.Uint32(from)
		r.vars[varOf(texts.first())] = span{v >> 16, v & 0xffff}
		from = from[4:]
	}
	r.data = append(r.data, from...)
	return r
}

// close undoes open where h stays in the buffer.
func (b *Buffer) close(h *held, r *RawEvent) {
	if r != h.whole {
		b.Release(r)
	}
}

// leave gives the place of h back.
func (b *Buffer) leave(h *held) {
	at := h.block
	h.whole, h.inherited = nil, nil
	at.live--
	if at.live > 0 {
		return
	}
	at.used, at.filled = 0, 0
	if at != b.filling {
		b.blocks.Put(at)
	}
}
