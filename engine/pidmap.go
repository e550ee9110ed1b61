package engine

import (
	"iter"
	"math/bits"
)

// pidMap finds what belongs to a pid. It is a hash table with linear probing whose slots
// are used again: the runtime's map is slower, and allocates as pids come and go.
type pidMap[T any] struct {
	slots []pidSlot[T] // a power of two of them, at most three quarters of them taken
	shift uint         // 64 less the logarithm of their number
	len   int
}

type pidSlot[T any] struct {
	pid   uint32
	value *T // nil if the slot is free
}

const minPIDSlots = 64

// home returns the first slot to look at. Fibonacci hashing spreads pids, which the
// kernel hands out in sequence.
func (m *pidMap[T]) home(pid uint32) int {
	return int(uint64(pid) * 0x9e3779b97f4a7c15 >> (m.shift & 63))
}

// find returns the slot of a pid, or the free one where it belongs.
func (m *pidMap[T]) find(pid uint32) int {
	i, mask := m.home(pid), len(m.slots)-1
	for m.slots[i].value != nil && m.slots[i].pid != pid {
		i = (i + 1) & mask
	}
	return i
}

// get returns the value of a pid, or nil.
func (m *pidMap[T]) get(pid uint32) *T {
	if m.len == 0 {
		return nil
	}
	return m.slots[m.find(pid)].value
}

// place returns where the value of a pid is. If there is nil, the caller has to set it at once.
func (m *pidMap[T]) place(pid uint32) **T {
	if 4*m.len >= 3*len(m.slots) {
		m.resize(2 * len(m.slots))
	}
	s := &m.slots[m.find(pid)]
	if s.value == nil {
		s.pid = pid
		m.len++
	}
	return &s.value
}

// trim halves the slots if few of them are taken.
func (m *pidMap[T]) trim() {
	if len(m.slots) > minPIDSlots && 8*m.len < len(m.slots) {
		m.resize(len(m.slots) / 2)
	}
}

func (m *pidMap[T]) resize(n int) {
	old := m.slots
	m.slots = make([]pidSlot[T], max(minPIDSlots, n))
	m.shift = uint(64 - bits.TrailingZeros(uint(len(m.slots))))
	for _, s := range old {
		if s.value != nil {
			m.slots[m.find(s.pid)] = s
		}
	}
}

// delete forgets a pid that has a value.
func (m *pidMap[T]) delete(pid uint32) {
	free, mask := m.find(pid), len(m.slots)-1
	// Values behind the free slot that could not be in their home or that near it move up.
	for i := (free + 1) & mask; m.slots[i].value != nil; i = (i + 1) & mask {
		if (i-m.home(m.slots[i].pid))&mask >= (i-free)&mask {
			m.slots[free] = m.slots[i]
			free = i
		}
	}
	m.slots[free] = pidSlot[T]{}
	m.len--
}

// pids yields the pids that have a value, in no order.
func (m *pidMap[T]) pids() iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for i := range m.slots {
			if m.slots[i].value != nil && !yield(m.slots[i].pid) {
				return
			}
		}
	}
}
