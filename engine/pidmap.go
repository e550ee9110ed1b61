package engine

import (
	"iter"
	"math/bits"
)

// pidMap maps pids to values. It is a hash table with linear probing that reuses its memory: the
// runtime's map is slower, and allocates as pids come and go. Neighbouring pids are in one group.
// The kernel assigns pids in sequence, so the next lookup is often in a cache line that was just
// used.
type pidMap[T any] struct {
	groups []pidGroup[T] // the length is a power of two; at most half of them are used
	shift  uint          // 64 - log2(len(groups))
	taken  int           // number of used groups
	len    int           // number of pids
}

// pidGroup has perGroup consecutive pids. It fills 64 bytes, one cache line, on 64-bit machines.
type pidGroup[T any] struct {
	values [perGroup]*T // nil for a pid without a value
	number uint32       // its first pid, divided by perGroup
	len    uint32       // 0 if the group is free
}

const (
	perGroup  = 7
	minGroups = 16
)

// bucket returns the index of the first group to search. Fibonacci hashing spreads the numbers.
func (m *pidMap[T]) bucket(number uint32) int {
	return int(uint64(number) * 0x9e3779b97f4a7c15 >> (m.shift & 63))
}

// find returns the index of the group with that number, or of the free group to put it in.
func (m *pidMap[T]) find(number uint32) int {
	i, mask := m.bucket(number), len(m.groups)-1
	for m.groups[i].len != 0 && m.groups[i].number != number {
		i = (i + 1) & mask
	}
	return i
}

// get returns the value of a pid, or nil.
func (m *pidMap[T]) get(pid uint32) *T {
	if m.len == 0 {
		return nil
	}
	return m.groups[m.find(pid/perGroup)].values[pid%perGroup]
}

// place returns a pointer to the value of a pid. If the value is nil, the caller has to set it at
// once.
func (m *pidMap[T]) place(pid uint32) **T {
	if 2*m.taken >= len(m.groups) {
		m.resize(2 * len(m.groups))
	}
	g := &m.groups[m.find(pid/perGroup)]
	value := &g.values[pid%perGroup]
	if *value == nil {
		if g.len == 0 {
			g.number = pid / perGroup
			m.taken++
		}
		g.len++
		m.len++
	}
	return value
}

// trim halves the number of groups if few of them are used.
func (m *pidMap[T]) trim() {
	if len(m.groups) > minGroups && 8*m.taken < len(m.groups) {
		m.resize(len(m.groups) / 2)
	}
}

func (m *pidMap[T]) resize(n int) {
	old := m.groups
	m.groups = make([]pidGroup[T], max(minGroups, n))
	m.shift = uint(64 - bits.TrailingZeros(uint(len(m.groups))))
	for i := range old {
		if g := &old[i]; g.len != 0 {
			m.groups[m.find(g.number)] = *g
		}
	}
}

// delete removes a pid. The pid must have a value.
func (m *pidMap[T]) delete(pid uint32) {
	free, mask := m.find(pid/perGroup), len(m.groups)-1
	g := &m.groups[free]
	g.values[pid%perGroup] = nil
	g.len--
	m.len--
	if g.len != 0 {
		return
	}
	m.taken--
	// A group behind the free group moves up if it gets closer to its bucket.
	for i := (free + 1) & mask; m.groups[i].len != 0; i = (i + 1) & mask {
		if (i-m.bucket(m.groups[i].number))&mask >= (i-free)&mask {
			m.groups[free], m.groups[i] = m.groups[i], pidGroup[T]{}
			free = i
		}
	}
}

// pids yields the pids that have a value, in no order.
func (m *pidMap[T]) pids() iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for i := range m.groups {
			for at, value := range m.groups[i].values {
				if value != nil && !yield(m.groups[i].number*perGroup+uint32(at)) {
					return
				}
			}
		}
	}
}
