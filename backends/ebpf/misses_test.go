package ebpf

import (
	"os"
	"testing"
	"unsafe"

	"github.com/quark-linux/quark/engine"
)

// Populate does not allocate, also when it reads the counters of skipped programs.
func TestPopulateAllocatesNothing(t *testing.T) {
	s := open(t, Options{})
	none := engine.NewBuffer(0) // which has no room
	if n := testing.AllocsPerRun(100, func() {
		s.gaps.looks = [2]uint64{}
		if err := s.Populate(none); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// The kernel is asked for skipped programs of raw tracepoints only where it can skip them.
func TestLooksWhereSkipped(t *testing.T) {
	if s := open(t, Options{}); (len(s.first) > 0) != preemptible() {
		t.Errorf("%d programs of raw tracepoints are looked at; can they be skipped: %v", len(s.first), preemptible())
	}
}

// Opening takes no memory for what the ring will have: that comes when its records are read.
func TestRingIsMappedWhenRead(t *testing.T) {
	s := open(t, Options{})
	r, ok := s.buffer.(*ring)
	if !ok {
		t.Skip("the kernel has no ring")
	}
	if r.data.part != nil {
		t.Errorf("%d bytes are mapped", len(r.data.part))
	}
	shortLives(t)(1)
	if err := s.Populate(engine.NewBuffer(100)); err != nil || len(r.data.part) != windowSize {
		t.Errorf("read: %d bytes are mapped, %v", len(r.data.part), err)
	}
}

// A window moves without an allocation and stays where it is in memory. A window that can't move
// ends, and unmaps only its own memory.
func TestWindow(t *testing.T) {
	page := os.Getpagesize()
	r, data := seenInParts(t)
	for i := range 4 {
		data[i*page] = byte(i)
	}
	w := r.data
	first := &w.from(0)[0]
	if n := testing.AllocsPerRun(100, func() {
		for i := range 4 {
			part := w.from(uint64(i*page + 7))
			if len(part) != page-7 || *(*byte)(unsafe.Add(unsafe.Pointer(&part[0]), -7)) != byte(i) {
				t.Fatalf("part %d has %d bytes", i, len(part))
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if at := &w.part[0]; at != first {
		t.Errorf("it moved in memory from %p to %p", first, at)
	}
	if w.fd = -1; w.from(0) != nil || w.err == nil || w.part != nil {
		t.Errorf("moved without a file: %v, %d bytes", w.err, len(w.part))
	}
	if w.from(uint64(page)) != nil {
		t.Error("moved after an error")
	}
}
