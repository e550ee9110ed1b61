package engine

import "slices"

// stock has what can be used again, so that a warm engine allocates nothing. What nobody needed
// between two calls of trim is let go: else a burst would cost its memory for good.
type stock[T any] struct {
	free  []*T // the one put in last is taken first
	least int  // how many were free at any time since the last trim
}

// trimEvery is the time between two trims, in ns. Bursts that follow each other within it
// allocate nothing.
const trimEvery = 2e9

// take returns one that is free, as it was put in, or else a new one.
func (s *stock[T]) take() *T {
	n := len(s.free) - 1
	if n < 0 {
		return new(T)
	}
	v := s.free[n]
	s.free = s.free[:n]
	s.least = min(s.least, n)
	return v
}

func (s *stock[T]) put(v *T) { s.free = append(s.free, v) }

func (s *stock[T]) trim() {
	if s.least > 0 {
		s.free = slices.Clone(s.free[s.least:])
	}
	s.least = len(s.free)
}
