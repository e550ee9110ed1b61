// Package stock keeps what can be used again, so that who is warm allocates nothing, and lets go
// what was not needed for a while.
package stock

import "slices"

// Of has what can be used again. What nobody needed between two calls of Trim is let go: else a
// burst would cost its memory for good. The zero value is empty.
type Of[T any] struct {
	free  []*T // the one put in last is taken first
	least int  // how many were free at any time since the last Trim
}

// TrimEvery is the time between two calls of Trim, in ns. Bursts that follow each other within it
// allocate nothing.
const TrimEvery = 2e9

// Take returns one that is free, as it was put in, or else a new one.
func (s *Of[T]) Take() *T {
	n := len(s.free) - 1
	if n < 0 {
		return new(T)
	}
	v := s.free[n]
	s.free = s.free[:n]
	s.least = min(s.least, n)
	return v
}

// Put gives one back.
func (s *Of[T]) Put(v *T) { s.free = append(s.free, v) }

// Trim lets go what was free all the time since the last Trim.
func (s *Of[T]) Trim() {
	if s.least > 0 {
		s.free = slices.Clone(s.free[s.least:])
	}
	s.least = len(s.free)
}
