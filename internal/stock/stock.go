// Package stock keeps what can be used again, so that who is warm allocates nothing, and lets go
// what was not needed for a while, which a [Timer] measures.
package stock

import "slices"

// Of has what can be used again. What nobody needed between two calls of Trim is let go: else a
// burst would cost its memory for good. The zero value is empty.
type Of[T any] struct {
	free  []*T // the one put in last is taken first
	least int  // how many were free at any time since the last Trim
}

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

// Fit returns a slice with less room if an eighth of it is enough.
func Fit[T any](s []T) []T {
	if cap(s) > fewest && 8*len(s) < cap(s) {
		return append(make([]T, 0, len(s)), s...)
	}
	return s
}
