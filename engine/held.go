package engine

import (
	"math"
	"math/bits"
)

// held is a raw event in the buffer. The memory of an event has left the CPU's caches since its
// last use, so its size determines the cost. Therefore rare members are in rare, equal members are
// stored once, and events lie next to their neighbours in time.
type held struct {
	// The members that the buffer uses to order events come first. They fill 64 bytes, one
	// cache line, on 64-bit machines.

	Kind   Kind
	Thread bool
	Image  uint16
	PID    uint32
	Time   uint64
	serial uint64  // order of arrival, breaks ties of Time
	links  [2]link // its neighbours
	queue  *queue  // the queue of its pid

	block         *block    // the block that holds it
	whole         *RawEvent // the event itself, if pack can't store all of it; else
	inherited     *Inherited
	known, cached Fields
	start, read   uint64
	startUnit     uint32
	from, to      uint16 // its texts, in block.texts

	heldNumbers
	texts [numVars]uint32 // offset << 16 | length of each text
	rare  *rare           // nil for most
}

// rare has the members that only EXECs and EXITs use.
type rare struct {
	exit   Exit
	usage  Usage
	file   ExeFile
	stdio  [3]Stream
	before struct {
		EUID, EGID uint32
		Known      bool
	}
}

const rareFields = FieldsUsage | 1<<FieldExit | 1<<FieldExeFile | 1<<FieldStdio

// heldNumbers are the numbers of an event that most events have.
type heldNumbers struct {
	tid, cpu, creator            uint32
	ppid, pgid, sid              uint32
	parentTID, nsPID, exitSignal uint32
	idChange                     IDChange
}

// block holds consecutive events. It has 10 KiB, and is reused when the last of its events has
// left.
type block struct {
	events [blockEvents]held
	texts  [blockTexts]byte // texts of its events
	used   int              // used places of events
	filled int              // used bytes of texts
	live   int              // number of its events that are held
}

const (
	blockEvents = 32
	blockTexts  = 3680
)

// next returns the next event of the pid, or nil.
func (h *held) next() *held { return h.links[linkPID].after }

// before reports whether h comes before o in the buffer.
func (h *held) before(o *held) bool {
	return h.Time < o.Time || h.Time == o.Time && h.serial < o.serial
}

// first returns the first field of s. s must not be empty.
func (s Fields) first() Field { return Field(bits.TrailingZeros64(uint64(s))) }

// hold stores r in the buffer, as a packed copy or r itself, and returns its place.
func (b *Buffer) hold(r *RawEvent) *held {
	at := b.filling
	need := len(r.data)
	if at == nil || at.used == blockEvents || need > blockTexts-at.filled && at.used > 0 {
		at = b.blocks.Get()
		b.filling = at
	}
	h := &at.events[at.used]
	at.used++
	at.live++
	h.Kind, h.Thread, h.Image, h.PID, h.Time, h.block = r.Kind, r.Thread, r.Image, r.PID, r.Time, at
	if t := &r.Task; r.Gap != nil || r.Errno != 0 || r.Kind == KindNSChange || r.Tracer.PID|r.Tracer.TID != 0 || t.Truncated != 0 ||
		t.StartUnit > math.MaxUint32 || need > blockTexts-at.filled {
		h.whole = r
		return h
	}
	b.pack(h, r)
	b.Release(r)
	return h
}

// pack copies r to h, without Seq, which only recordings need.
func (b *Buffer) pack(h *held, r *RawEvent) {
	t := &r.Task
	h.inherited = b.inherited.get(&t.Inherited)
	h.known, h.cached, h.start, h.startUnit, h.read = t.Known, t.Cached, t.Start, uint32(t.StartUnit), r.Read
	h.tid, h.cpu, h.creator, h.idChange = r.TID, r.CPU, r.Creator, r.IDChange
	h.ppid, h.pgid, h.sid, h.parentTID, h.nsPID, h.exitSignal = t.PPID, t.PGID, t.SID, t.ParentTID, t.NSPID, t.ParentSignal

	if t.Known&rareFields != 0 {
		h.rare = b.rares.Get()
		*h.rare = rare{t.Exit, r.Usage, t.ExeFile, t.Stdio, r.Before}
	}
	for i, v := range r.vars {
		h.texts[i] = v.off<<16 | v.len
	}
	at := h.block
	h.from = uint16(at.filled)
	at.filled += copy(at.texts[at.filled:], r.data)
	h.to = uint16(at.filled)
}

// open returns the event of h, unpacked. The caller passes it to Release after h has left the
// buffer, else to close.
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

	if x := h.rare; x != nil {
		t.Exit, r.Usage, t.ExeFile, t.Stdio, r.Before = x.exit, x.usage, x.file, x.stdio, x.before
	}
	for i, v := range h.texts {
		r.vars[i] = span{v >> 16, v & 0xffff}
	}
	r.data = append(r.data, h.block.texts[h.from:h.to]...)
	return r
}

// close releases the event that open returned, while h stays in the buffer.
func (b *Buffer) close(h *held, r *RawEvent) {
	if r != h.whole {
		b.Release(r)
	}
}

// leave frees the place of h.
func (b *Buffer) leave(h *held) {
	at := h.block
	if h.rare != nil {
		b.rares.Put(h.rare)
	}
	h.whole, h.inherited, h.rare = nil, nil, nil
	at.live--
	if at.live > 0 {
		return
	}
	at.used, at.filled = 0, 0
	if at != b.filling {
		b.blocks.Put(at)
	}
}
