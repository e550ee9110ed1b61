package kprobe

import (
	"bytes"
	"encoding/binary"

	"github.com/quark-linux/quark/engine"
)

// values holds the raw samples of one event. They are decoded on demand, because most path
// components that a probe fetches lie above the root of the path and are not used.
type values struct {
	slots   *slotPlaces
	records [maxParts][]byte // by index of the probe; nil if it has not come
	own     [maxParts]bool   // the record was copied to memory
	memory  []byte
	zeroes  bool
}

// maxParts is the largest number of probes in a set.
const maxParts = 32

// slotPlaces holds the position of each slot in the records of a set.
type slotPlaces [numSlots]slotPlace

type slotPlace struct {
	fetched bool
	kind    placeKind
	part    uint8 // number of the probe
	off     uint16
}

// add adds the positions in the records of a probe. If several probes fetch a slot, the slot is
// read from the first.
func (p *slotPlaces) add(l *layout, part int) {
	for _, at := range l.places {
		slots := slot(at.count)
		if at.kind == placeChunk {
			slots = 1 // for all words of the chunk
		}
		for n := range slots {
			if s := at.slot + n; !p[s].fetched {
				p[s] = slotPlace{true, at.kind, uint8(part), at.off + uint16(n)*uint16(at.size)}
			}
		}
	}
}

// remove removes the positions in the records of a probe.
func (p *slotPlaces) remove(part int) {
	for s := range p {
		if p[s].part == uint8(part) {
			p[s] = slotPlace{}
		}
	}
}

// has reports whether a slot is fetched.
func (p *slotPlaces) has(s slot) bool { return p[s].fetched }

// hasAll reports whether all slots in a range, both ends included, are fetched.
func (p *slotPlaces) hasAll(from, to slot) bool {
	for s := from; s <= to; s++ {
		if !p.has(s) {
			return false
		}
	}
	return true
}

// begin removes all records and starts an event of set s.
func (v *values) begin(s *set) {
	v.slots, v.zeroes = &s.slots, s.zeroes
	clear(v.records[:])
	clear(v.own[:])
	v.memory = v.memory[:0]
}

// add adds a record, which has at least the length of its layout. The caller keeps the record valid
// until the event is finished or keep is called.
func (v *values) add(part int, raw []byte) { v.records[part] = raw }

// keep copies the records that have come so far.
func (v *values) keep() {
	for part, raw := range v.records {
		if raw != nil && !v.own[part] {
			at := len(v.memory)
			// Earlier copies keep the old memory.
			v.memory = append(v.memory, raw...)
			v.records[part], v.own[part] = v.memory[at:], true
		}
	}
}

// number returns the value of a slot, or 0 if its record has not come.
func (v *values) number(s slot) uint64 {
	at := &v.slots[s]
	raw := v.records[at.part]
	if raw == nil || !at.fetched {
		return 0
	}
	raw = raw[at.off:]
	switch at.kind {
	case placeWord:
		return binary.NativeEndian.Uint64(raw)
	case placeHalf:
		return uint64(binary.NativeEndian.Uint32(raw))
	}
	return uint64(raw[0])
}

func (v *values) u32(s slot) uint32 { return uint32(v.number(s)) }

// name returns the text of a slot. The text is empty if the kernel could not read it, or if its
// position is outside of the record.
func (v *values) name(s slot) []byte {
	at := &v.slots[s]
	raw := v.records[at.part]
	if raw == nil || at.kind != placeString {
		return nil
	}
	where := binary.NativeEndian.Uint32(raw[at.off:])
	off, n := int(where&0xffff), int(where>>16)
	if n == 0 || off+n > len(raw) {
		return nil
	}
	text := raw[off:][:n]
	if text[n-1] == 0 {
		text = text[:n-1]
	}
	return text
}

// credentials returns the ids in consecutive slots that begin with uid.
func (v *values) credentials(uid slot) engine.Credentials {
	return engine.Credentials{ // in the order of the slots
		UID: v.u32(uid), GID: v.u32(uid + 1), SUID: v.u32(uid + 2),
		SGID: v.u32(uid + 3), EUID: v.u32(uid + 4), EGID: v.u32(uid + 5),
	}
}

// capabilities returns the sets in consecutive slots that begin with inheritable.
func (v *values) capabilities(inheritable slot) engine.Capabilities {
	return engine.Capabilities{ // in the order of the slots
		Inheritable: v.number(inheritable), Permitted: v.number(inheritable + 1), Effective: v.number(inheritable + 2),
		Bounding: v.number(inheritable + 3), Ambient: v.number(inheritable + 4),
	}
}

// setComm sets the comm of ev from two slots.
func (v *values) setComm(ev *engine.RawEvent, first slot) {
	var comm [16]byte
	binary.NativeEndian.PutUint64(comm[:], v.number(first))
	binary.NativeEndian.PutUint64(comm[8:], v.number(first+1))
	comm[15] = 0 // TASK_COMM_LEN includes a NUL
	ev.Set(engine.FieldComm, comm[:bytes.IndexByte(comm[:], 0)])
}

// chunk returns a chunk of the arguments, or nil if it has not come.
func (v *values) chunk(n int) []byte {
	at := &v.slots[slotArgv+slot(n)]
	raw := v.records[at.part]
	if raw == nil || !at.fetched {
		return nil
	}
	return raw[at.off:][:chunkSize]
}

// readable returns how many of the first size bytes of the arguments have come and were read by the
// kernel.
func (v *values) readable(size int) (n int) {
	unread := uint64(guardWord)
	if v.zeroes {
		unread = 0
	}
	for c := 0; n < size && c < chunks; c++ {
		b := v.chunk(c)
		if b == nil {
			break
		}
		for at := 0; at < len(b) && n+at < size; at += 8 {
			if binary.NativeEndian.Uint64(b[at:]) == unread && !(v.zeroes && v.zeroKnown(n+at)) {
				return n + at
			}
		}
		n += len(b)
	}
	return min(n, size)
}

// zeroKnown reports whether a word of 0 at an offset into the arguments was really read. A failed
// read gives 0 too. The read succeeded if other words of its pages are not 0: a probe reads all
// words of a page, and no page can be removed meanwhile.
func (v *values) zeroKnown(at int) bool {
	start := v.number(slotArgStart) + uint64(at)
	return v.pageRead(start) && (pageNumber(start) == pageNumber(start+7) || v.pageRead(start+7))
}

// pageNumber returns the number of the page at an address, for the smallest page size.
func pageNumber(address uint64) uint64 { return address / 4096 }

// pageRead reports whether a nonzero word was read from the page of an address.
func (v *values) pageRead(address uint64) bool {
	start := v.number(slotArgStart)
	for n := range chunks {
		b := v.chunk(n)
		for word := 0; word < len(b); word += 8 {
			at := start + uint64(n*chunkSize+word)
			if (pageNumber(at) == pageNumber(address) || pageNumber(at+7) == pageNumber(address)) && binary.NativeEndian.Uint64(b[word:]) != 0 {
				return true
			}
		}
	}
	return false
}

// arguments fills dst with the start of the arguments. The length of dst is at most the result of
// readable.
func (v *values) arguments(dst []byte) {
	for n := 0; len(dst) > 0; n++ {
		dst = dst[copy(dst, v.chunk(n)):]
	}
}
