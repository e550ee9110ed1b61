package perf

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"
)

// newFakeRing returns a ring without a kernel.
func newFakeRing(size int) *Ring {
	var head, tail uint64
	return newRing(-1, nil, &head, &tail, make([]byte, size))
}

// put writes a record as the kernel does.
func (r *Ring) put(kind uint32, body []byte) bool {
	size := headerSize + (len(body)+7)&^7
	if uint64(size) > uint64(len(r.data))-(*r.head-*r.tail) {
		return false
	}
	rec := make([]byte, size)
	binary.NativeEndian.PutUint32(rec, kind)
	binary.NativeEndian.PutUint16(rec[6:], uint16(size))
	copy(rec[headerSize:], body)
	for i, b := range rec {
		r.data[(*r.head+uint64(i))%uint64(len(r.data))] = b
	}
	*r.head += uint64(size)
	return true
}

// TestWrap reads a record that wraps around the end of the ring, at every offset.
func TestWrap(t *testing.T) {
	for _, length := range []int{8, 16, 40, 200, 248} {
		for start := 0; start < 256; start += 8 {
			r := newFakeRing(256)
			*r.head, *r.tail, r.at = uint64(start), uint64(start), uint64(start)
			body := make([]byte, length)
			for i := range body {
				body[i] = byte(i + start)
			}
			if !r.put(RecordSample, body) {
				t.Fatalf("no room for a record of %d bytes", length)
			}
			if length >= 16 {
				want := binary.NativeEndian.Uint64(body[8:])
				if at, ok := r.Time(); at != want || !ok {
					t.Fatalf("record of %d bytes at offset %d: got time %#x, want %#x", length, start, at, want)
				}
			} else if at, ok := r.Time(); at != 0 || !ok {
				t.Fatalf("record of %d bytes: got time %d, want 0", length, at)
			}
			rec, ok, bad := r.Next()
			if !ok || bad || rec.Type != RecordSample || !bytes.Equal(rec.Body, body) {
				t.Fatalf("record of %d bytes at offset %d: got %v, ok %v, bad %v", length, start, rec, ok, bad)
			}
			if _, ok, bad := r.Next(); ok || bad {
				t.Fatal("got a second record, want none")
			}
			if _, ok := r.Time(); ok {
				t.Fatal("got the time of a second record")
			}
			if r.Pending() != 0 || *r.tail != uint64(start) {
				t.Fatal("the record was released before Release")
			}
			if most := r.Release(); *r.tail != *r.head || most != int(*r.head)-start {
				t.Fatalf("Release did not release the record: got %d bytes", most)
			}
		}
	}
}

// TestStream writes and reads records while the ring is nearly full.
func TestStream(t *testing.T) {
	r := newFakeRing(1024)
	var sent, got byte
	for round := range 5000 {
		for r.put(RecordSample, bytes.Repeat([]byte{sent}, 8*(1+round%20))) {
			sent++
		}
		for range 1 + round%5 {
			rec, ok, bad := r.Next()
			if bad {
				t.Fatal("got bad")
			}
			if !ok {
				break
			}
			if rec.Body[0] != got {
				t.Fatalf("got record %d, want %d", rec.Body[0], got)
			}
			got++
		}
		r.Release()
	}
}

func TestBadRecords(t *testing.T) {
	for _, size := range []uint16{0, 4, 7, 12, 1000} {
		r := newFakeRing(256)
		r.put(RecordSample, make([]byte, 64))
		binary.NativeEndian.PutUint16(r.data[6:], size)
		if _, ok, bad := r.Next(); ok || !bad {
			t.Errorf("size %d: got no error", size)
		}
		if _, ok, bad := r.Next(); ok || bad {
			t.Errorf("size %d: the rest of the ring was not skipped", size)
		}
	}
	r := newFakeRing(256)
	*r.head = 1 << 40
	if _, ok, bad := r.Next(); ok || !bad {
		t.Error("an invalid position: got no error")
	}
}

func TestNoAllocation(t *testing.T) {
	r := newFakeRing(1024)
	body := make([]byte, 136)
	if n := testing.AllocsPerRun(1000, func() {
		r.put(RecordSample, body)
		r.Next()
		r.Release()
	}); n > 1.1 { // put allocates once for each record
		t.Errorf("got %v allocations per record, want 1", n)
	}
}

func FuzzRing(f *testing.F) {
	f.Add(make([]byte, 64), uint64(0), uint64(64))
	f.Add([]byte("\x09\x00\x00\x00\x00\x00\x28\x00"), uint64(248), uint64(288))
	f.Fuzz(func(t *testing.T, data []byte, tail, head uint64) {
		r := newFakeRing(256)
		copy(r.data, data)
		*r.head, *r.tail, r.at = head, tail, tail
		for range 64 {
			rec, ok, bad := r.Next()
			if ok == bad && ok {
				t.Fatal("got both ok and bad")
			}
			if !ok {
				break
			}
			var s Sample
			s.ParseSample(rec.Body)
		}
	})
}

// ReadQueued returns records of all rings by time. A record without a time is returned first. If
// the buffer is full, the rest stays in the rings.
func TestReadQueued(t *testing.T) {
	a, b := &CPU{Ring: newFakeRing(1024)}, &CPU{Ring: newFakeRing(1024)}
	at := func(ns uint64) []byte { return binary.NativeEndian.AppendUint64(make([]byte, 8), ns) }
	for _, ns := range []uint64{1, 4, 5, 9} {
		a.Ring.put(RecordSample, at(ns))
	}
	for _, ns := range []uint64{2, 3, 0, 7} {
		b.Ring.put(RecordSample, at(ns))
	}
	var got []uint64
	step := func(c *CPU) {
		rec, _, _ := c.Ring.Next()
		got = append(got, binary.NativeEndian.Uint64(rec.Body[8:]))
	}
	all := []*CPU{a, b}
	if !ReadQueued(all, func() bool { return len(got) < 4 }, step) || !slices.Equal(got, []uint64{1, 2, 3, 0}) {
		t.Errorf("4 records wanted: got %d", got)
	}
	if !ReadQueued(all, func() bool { return true }, step) || !slices.Equal(got[4:], []uint64{4, 5, 7, 9}) {
		t.Errorf("remaining records: got %d", got)
	}
	if ReadQueued(all, func() bool { return true }, step) {
		t.Error("got records from empty rings")
	}
}
