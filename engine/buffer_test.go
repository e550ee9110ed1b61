package engine

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// naiveBuffer is a slice that is sorted on each use.
type naiveBuffer []*held

func (n naiveBuffer) sorted() naiveBuffer {
	s := slices.Clone(n)
	slices.SortStableFunc(s, func(a, b *held) int {
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

// A buffer is full by the number of events or by the length of their texts. It always has room for
// one event.
func TestRoomForTexts(t *testing.T) {
	for _, c := range []struct{ max, long, want int }{{1, 40000, 1}, {10, 12 << 10, 4}, {10, 4000, 10}, {1 << 24, 1 << 20, 100}} {
		b := NewBuffer(c.max)
		var n int
		for ; b.Room() > 0 && n < 100; n++ {
			r := b.Reserve()
			r.PID = 1
			r.Grow(FieldArgs, c.long)
			b.Insert(r)
		}
		if n != c.want {
			t.Errorf("got %d texts of %d bytes in a buffer of %d, want %d", n, c.long, c.max, c.want)
		}
		for b.Len() > 0 {
			h := b.oldest()
			r := b.open(h)
			b.remove(h, r)
			b.Release(r)
		}
		if b.Room() != c.max {
			t.Errorf("empty buffer: got room for %d, want %d", b.Room(), c.max)
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
				oracle = append(oracle, b.order.finger)
			} else if len(oracle) > 0 {
				i := rnd.IntN(len(oracle))
				if rnd.IntN(2) == 0 {
					i = slices.Index(oracle, oracle.sorted()[0])
				}
				h := oracle[i]
				oracle = slices.Delete(oracle, i, i+1)
				r := b.open(h)
				b.remove(h, r)
				b.Release(r)
			}
			if b.Len() != len(oracle) || b.Room() != max-len(oracle) {
				t.Fatalf("seed %d step %d: got length %d and room %d, want length %d of %d", seed, step, b.Len(), b.Room(), len(oracle), max)
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
				var next *held
				if j := slices.IndexFunc(s[i+1:], func(o *held) bool { return o.PID == r.PID }); j >= 0 {
					next = s[i+1+j]
				}
				if r.next() != next {
					t.Fatalf("seed %d step %d: wrong successor", seed, step)
				}
			}
		}
	}
}

// scramble sets most members of v to random values, and leaves the others at 0.
func scramble(rnd *rand.Rand, v reflect.Value) {
	switch {
	case rnd.IntN(8) == 0:
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			scramble(rnd, v.Field(i))
		}
	case v.Kind() == reflect.Array:
		for i := range v.Len() {
			scramble(rnd, v.Index(i))
		}
	case v.CanInt():
		v.SetInt(int64(rnd.Uint64()))
	case v.CanUint():
		v.SetUint(rnd.Uint64())
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	default:
		panic(v.Type().String())
	}
}

// anyEvent makes r a random event. It seldom has the members that few events have.
func anyEvent(rnd *rand.Rand, r *RawEvent) {
	for v, i := reflect.ValueOf(r).Elem(), 0; i < v.NumField(); i++ {
		switch v.Type().Field(i).Name {
		case "vars", "data", "Seq", "Gap", "NSChange": // Seq is for recordings
		case "Tracer", "Errno":
			if rnd.IntN(20) == 0 {
				scramble(rnd, v.Field(i))
			}
		default:
			scramble(rnd, v.Field(i))
		}
	}
	if r.Kind %= KindGap; rnd.IntN(20) == 0 {
		r.Kind, r.NSChange.Changed, r.NSChange.Old.Mnt = KindNSChange, ChangedMnt, 7
	}
	if rnd.IntN(20) == 0 {
		r.Kind, r.PID, r.Gap = KindGap, 0, new(Gap)
	}
	if t := &r.Task; rnd.IntN(10) > 0 {
		t.Truncated, t.StartUnit = 0, t.StartUnit>>32
	}
	// A member counts only if its field is known.
	t := &r.Task
	if !t.Known.Has(FieldExit) {
		t.Exit = Exit{}
	}
	if !t.Known.Has(FieldExeFile) {
		t.ExeFile, r.Before = ExeFile{}, new(RawEvent).Before
	}
	if !t.Known.Has(FieldStdio) {
		t.Stdio = [3]Stream{}
	}
	if t.Known&FieldsUsage == 0 {
		r.Usage = Usage{}
	}
	for f := range Field(NumFields) {
		if (t.Known & textFields).Has(f) {
			for i, text := 0, r.Grow(f, rnd.IntN(1+rnd.IntN(1+rnd.IntN(9000)))); i < len(text); i++ {
				text[i] = byte(i) + byte(f)
			}
		}
	}
}

// An event comes out of the buffer unchanged, without values of an earlier event in the same place.
func TestBufferKeepsAll(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 3))
	b := NewBuffer(500)
	want := map[*held]RawEvent{}
	packed := 0
	for step := range 20000 {
		if b.Room() > 0 && rnd.IntN(2) == 0 {
			r := b.Reserve()
			anyEvent(rnd, r)
			is := *r
			is.data = bytes.Clone(r.data)
			b.Insert(r)
			h := b.order.finger
			want[h] = is
			if h.whole == nil {
				packed++
			}
			continue
		}
		for h := range want {
			r, is := b.open(h), want[h]
			if rnd.IntN(2) == 0 {
				b.close(h, r)
				break
			}
			b.remove(h, r)
			got := *r
			if !bytes.Equal(got.data, is.data) {
				t.Fatalf("step %d: got texts %q, want %q", step, got.data, is.data)
			}
			if got.data, is.data = nil, nil; !reflect.DeepEqual(got, is) {
				t.Fatalf("step %d: got\n%+v, want\n%+v", step, got, is)
			}
			b.Release(r)
			delete(want, h)
			break
		}
	}
	if packed < 3000 {
		t.Errorf("only %d events were packed", packed)
	}
}

func TestRawEventBytes(t *testing.T) {
	b := NewBuffer(2)
	r := b.Reserve()
	r.Set(FieldExe, []byte("/bin/true"))
	copy(r.Grow(FieldArgs, 5), "true\x00")
	r.Set(FieldCwd, nil)
	if got := string(r.Bytes(FieldExe)); got != "/bin/true" {
		t.Errorf("got filename %q", got)
	}
	if got := string(r.Bytes(FieldArgs)); got != "true\x00" {
		t.Errorf("got cmdline %q", got)
	}
	if r.Bytes(FieldCwd) == nil || len(r.Bytes(FieldCwd)) != 0 {
		t.Error("want an empty cwd known and empty")
	}
	if r.Bytes(FieldCgroup) != nil {
		t.Error("an unknown cgroup has bytes")
	}
	b.Release(r)
	if r = b.Reserve(); r.Task.Known != 0 || r.Bytes(FieldExe) != nil {
		t.Error("a reserved event is not empty")
	}
}
