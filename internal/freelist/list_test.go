package freelist

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"weak"
)

// naive is the specification of [List], with a mark on each object.
type naive struct {
	free []*int
	idle map[*int]bool // free since the last trim
}

func (n *naive) take() *int {
	if len(n.free) == 0 {
		return nil
	}
	v := n.free[len(n.free)-1]
	n.free = n.free[:len(n.free)-1]
	delete(n.idle, v)
	return v
}

func (n *naive) trim() {
	n.free = slices.DeleteFunc(n.free, func(v *int) bool { return n.idle[v] })
	n.idle = make(map[*int]bool)
	for _, v := range n.free {
		n.idle[v] = true
	}
}

// After any sequence of operations the same objects are free as in the naive list.
func TestLikeNaive(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		var list List[int]
		var want naive
		var used []*int
		for step := range 300 {
			busy := step / 50 % 2 * 3 // a burst, then more rest
			switch n := r.IntN(9 + busy); {
			case n == 0:
				list.Trim()
				want.trim()
			case n < 5 && len(used) > 0:
				i := r.IntN(len(used))
				list.Put(used[i])
				want.free = append(want.free, used[i])
				used = slices.Delete(used, i, i+1)
			default:
				v, w := list.Get(), want.take()
				if w == nil && slices.Contains(used, v) || w != nil && v != w {
					t.Fatalf("seed %d, step %d: got %p, want %p (nil for a new one)", seed, step, v, w)
				}
				used = append(used, v)
			}
			if !slices.Equal(list.free, want.free) {
				t.Fatalf("seed %d, step %d: got free objects %v, want %v", seed, step, list.free, want.free)
			}
		}
	}
}

// Released objects are garbage, and objects in steady use are not allocated.
func TestOfBurst(t *testing.T) {
	const burst = 1000
	var list List[[1 << 10]byte]
	taken := make([]*[1 << 10]byte, burst)
	for i := range taken {
		taken[i] = list.Get()
	}
	all := make([]weak.Pointer[[1 << 10]byte], burst)
	for i, v := range taken {
		all[i] = weak.Make(v)
		list.Put(v)
	}
	clear(taken)
	work := func() { // needs two at a time
		a, b := list.Get(), list.Get()
		list.Put(b)
		list.Put(a)
		list.Trim()
	}
	work()
	work()
	runtime.GC()
	left := 0
	for _, v := range all {
		if v.Value() != nil {
			left++
		}
	}
	if left != 2 {
		t.Errorf("got %d free objects of %d, want the 2 that were needed", left, burst)
	}
	if n := testing.AllocsPerRun(100, work); n != 0 {
		t.Errorf("got %v allocations a run, want none", n)
	}
	runtime.KeepAlive(&list)
}
