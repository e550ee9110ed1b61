package freelist_test

import (
	"testing"

	"github.com/quark-linux/quark/internal/freelist"
	"github.com/quark-linux/quark/internal/freelist/freelisttest"
)

// The memory of a burst is released, and the entries stay.
func TestBurstIsGivenBack(t *testing.T) {
	var m freelist.Map[uint32, [16]byte]
	var of freelist.List[[64]byte]
	var list []uint64
	m.Put(1<<20, [16]byte{7})
	freelisttest.Burst(t, &m, 512, func(n uint32) {
		var taken []*[64]byte
		for i := range n {
			m.Put(i, [16]byte{})
			taken = append(taken, of.Get())
			list = append(list, uint64(i))
		}
		for i := range n {
			delete(m.In, i)
			of.Put(taken[i])
		}
		clear(taken)
		list = list[:1]
		m.Trim()
		of.Trim()
		list = freelist.Shrink(list)
	})
	if len(m.In) != 1 || m.In[1<<20][0] != 7 || len(list) != 1 {
		t.Errorf("got map %v and list %v after the burst", m.In, list)
	}
}

// A map keeps its capacity between consecutive bursts.
func TestMapKeepsCapacity(t *testing.T) {
	var m freelist.Map[uint32, int]
	burst := func() {
		for i := range uint32(1000) {
			m.Put(i, 0)
		}
		clear(m.In)
	}
	burst()
	if n := testing.AllocsPerRun(10, func() { m.Trim(); burst() }); n != 0 {
		t.Errorf("got %v allocations in each burst", n)
	}
}

func TestTimer(t *testing.T) {
	var timer freelist.Timer
	for _, c := range []struct {
		now  uint64
		want bool
	}{{0, false}, {freelist.TrimEvery - 1, false}, {freelist.TrimEvery, true}, {freelist.TrimEvery, false}, {1, false}, {2 * freelist.TrimEvery, true}, {10 * freelist.TrimEvery, true}} {
		if got := timer.Due(c.now); got != c.want {
			t.Errorf("at %d: got %v", c.now, got)
		}
	}
}
