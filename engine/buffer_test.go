package engine

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// naiveBuffer is a slice that is sorted anew each time.
type naiveBuffer []*RawEvent

func (n naiveBuffer) sorted() naiveBuffer {
	s := slices.Clone(n)
	slices.SortStableFunc(s, func(a, b *RawEvent) int {
		switch {
		case a.before(b):
			return -1
		case b.before(a):
			return 1
		}
		return 0
	})
	return s
}

// Texts fill the buffer as well as events do. One event always finds room.
func TestRoomForTexts(t *testing.T) {
	for _, c := range []struct{ max, long, want int }{{1, 40000, 1}, {10, 12 << 10, 4}, {10, 4000, 10}, {1 << 24, 1 << 20, 100}} {
		b := NewBuffer(c.max)
		var n int
		for ; b.Room() > 0 && n < 100; n++ {
			r := b.Reserve()
			r.PID = 1
			r.Grow(FieldCmdline, c.long)
			b.Insert(r)
		}
		if n != c.want {
			t.Errorf("%d texts of %d bytes in a buffer of %d, want %d", n, c.long, c.max, c.want)
		}
		for b.Len() > 0 {
			r := b.oldest()
			b.remove(r)
			b.Release(r)
		}
		if b.Room() != c.max {
			t.Errorf("room for %d of %d after all left", b.Room(), c.max)
		}
	}
}

// TestBufferEqualsSortedSlice inserts and removes at random and compares the
// oldest event and the successors of every pid with a sorted slice.
func TestBufferEqualsSortedSlice(t *testing.T) {
	for seed := range uint64(30) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		max := 1 + rnd.IntN(64)
		b := NewBuffer(max)
		var oracle naiveBuffer
		for step := range 2000 {
			if b.Room() > 0 && rnd.IntN(2) == 0 {
				r := b.Reserve()
				r.PID, r.Kind, r.Thread, r.Time = uint32(rnd.IntN(6)), Kind(rnd.IntN(3)), rnd.IntN(4) == 0, uint64(rnd.IntN(20))
				b.Insert(r)
				oracle = append(oracle, r)
			} else if len(oracle) > 0 {
				i := rnd.IntN(len(oracle))
				if rnd.IntN(2) == 0 {
					i = slices.Index(oracle, oracle.sorted()[0])
				}
				r := oracle[i]
				oracle = slices.Delete(oracle, i, i+1)
				b.remove(r)
				b.Release(r)
			}
			if b.Len() != len(oracle) || b.Room() != max-len(oracle) {
				t.Fatalf("seed %d step %d: len %d room %d, want %d of %d", seed, step, b.Len(), b.Room(), len(oracle), max)
			}
			s := oracle.sorted()
			if len(s) == 0 {
				if b.oldest() != nil {
					t.Fatalf("seed %d step %d: empty buffer has an oldest event", seed, step)
				}
				continue
			}
			if b.oldest() != s[0] {
				t.Fatalf("seed %d step %d: wrong oldest event", seed, step)
			}
			for i, r := range s {
				var next *RawEvent
				if j := slices.IndexFunc(s[i+1:], func(o *RawEvent) bool { return o.PID == r.PID }); j >= 0 {
					next = s[i+1+j]
				}
				if r.next != next {
					t.Fatalf("seed %d step %d: wrong successor", seed, step)
				}
			}
		}
	}
}

func TestRawEventBytes(t *testing.T) {
	b := NewBuffer(2)
	r := b.Reserve()
	r.Set(FieldFilename, []byte("/bin/true"))
	copy(r.Grow(FieldCmdline, 5), "true\x00")
	r.Set(FieldCwd, nil)
	if got := string(r.Bytes(FieldFilename)); got != "/bin/true" {
		t.Errorf("filename is %q", got)
	}
	if got := string(r.Bytes(FieldCmdline)); got != "true\x00" {
		t.Errorf("cmdline is %q", got)
	}
	if r.Bytes(FieldCwd) == nil || len(r.Bytes(FieldCwd)) != 0 {
		t.Error("an empty cwd is not known and empty")
	}
	if r.Bytes(FieldCgroup) != nil {
		t.Error("an unknown cgroup has bytes")
	}
	b.Release(r)
	if r = b.Reserve(); r.Task.Known != 0 || r.Bytes(FieldFilename) != nil {
		t.Error("a reserved event is not empty")
	}
}
