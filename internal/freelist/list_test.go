package freelist

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"weak"
)

// naive is what [Of] is to be, with a mark on each thing.
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

// Whatever is done in which order, the same things are free as in the naive one.
func TestLikeNaive(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		var stock List[int]
		var want naive
		var used []*int
		for step := range 300 {
			busy := step / 50 % 2 * 3 // a burst, then more rest
			switch n := r.IntN(9 + busy); {
			case n == 0:
				stock.Trim()
				want.trim()
			case n < 5 && len(used) > 0:
				i := r.IntN(len(used))
				stock.Put(used[i])
				want.free = append(want.free, used[i])
				used = slices.Delete(used, i, i+1)
			default:
				v, w := stock.Get(), want.take()
				if w == nil && slices.Contains(used, v) || w != nil && v != w {
					t.Fatalf("seed %d, step %d: took %p, want %p (nil for a new one)", seed, step, v, w)
				}
				used = append(used, v)
			}
			if !slices.Equal(stock.free, want.free) {
				t.Fatalf("seed %d, step %d: free are %v, want %v", seed, step, stock.free, want.free)
			}
		}
	}
}

// What is let go is garbage, and what is needed again and again is not allocated.
func TestOfBurst(t *testing.T) {
	const burst = 1000
	var stock List[[1 << 10]byte]
	taken := make([]*[1 << 10]byte, burst)
	for i := range taken {
		taken[i] = stock.Get()
	}
	all := make([]weak.Pointer[[1 << 10]byte], burst)
	for i, v := range taken {
		all[i] = weak.Make(v)
		stock.Put(v)
	}
	clear(taken)
	work := func() { // needs two at a time
		a, b := stock.Get(), stock.Get()
		stock.Put(b)
		stock.Put(a)
		stock.Trim()
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
		t.Errorf("%d are left of %d, want the 2 that were needed", left, burst)
	}
	if n := testing.AllocsPerRun(100, work); n != 0 {
		t.Errorf("%v allocations a run, want none", n)
	}
	runtime.KeepAlive(&stock)
}
