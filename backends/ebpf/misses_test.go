package ebpf

import (
	"os"
	"testing"
	"unsafe"

	"github.com/quark-linux/quark/engine"
)

// Populate does not allocate, even while it reads the kernel's counters of skipped programs.
func TestPopulateAllocatesNothing(t *testing.T) {
	s := open(t, Options{})
	none := engine.NewBuffer(0) // a buffer for no events
	if n := testing.AllocsPerRun(100, func() {
		s.gaps.readTimes = [2]uint64{}
		if err := s.Populate(none); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}

// The source reads the kernel's counters of skipped programs only if the kernel can skip the
// programs of raw tracepoints.
func TestLooksWhereSkipped(t *testing.T) {
	if s := open(t, Options{}); (len(s.first) > 0) != preemptible() {
		t.Errorf("got %d counters of raw tracepoint programs, preemptible() = %v", len(s.first), preemptible())
	}
}

// Open maps no data of the ring. The first read maps it.
func TestRingIsMappedWhenRead(t *testing.T) {
	s := open(t, Options{})
	r, ok := s.buffer.(*ring)
	if !ok {
		t.Skip("the kernel has no ring")
	}
	if r.data.part != nil {
		t.Errorf("got %d bytes mapped after Open, want 0", len(r.data.part))
	}
	processRunner(t)(1)
	if err := s.Populate(engine.NewBuffer(100)); err != nil || len(r.data.part) != windowSize {
		t.Errorf("after the first read: got %d bytes mapped, error %v", len(r.data.part), err)
	}
}

// A window moves to another part of the file without an allocation, and keeps its address. If it
// cannot move, it unmaps only its own memory and reports the error.
func TestWindow(t *testing.T) {
	page := os.Getpagesize()
	r, data := newFileRing(t)
	for i := range 4 {
		data[i*page] = byte(i)
	}
	w := r.data
	first := &w.from(0)[0]
	if n := testing.AllocsPerRun(100, func() {
		for i := range 4 {
			part := w.from(uint64(i*page + 7))
			if len(part) != page-7 || *(*byte)(unsafe.Add(unsafe.Pointer(&part[0]), -7)) != byte(i) {
				t.Fatalf("part %d: got %d bytes, or wrong content", i, len(part))
			}
		}
	}); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
	if at := &w.part[0]; at != first {
		t.Errorf("the window's address changed from %p to %p", first, at)
	}
	if w.fd = -1; w.from(0) != nil || w.err == nil || w.part != nil {
		t.Errorf("after a move without a file: got error %v, %d bytes", w.err, len(w.part))
	}
	if w.from(uint64(page)) != nil {
		t.Error("the window moved after an error")
	}
}
