// Package freelist reuses objects so that the steady state does not allocate, and releases unused
// ones after a while, which a [Timer] measures.
package freelist

import "slices"

// List has reusable objects. Trim releases those that were unused since the previous Trim, so that
// a burst does not keep its memory. The zero value is empty.
type List[T any] struct {
	free  []*T // a stack
	least int  // smallest number of free objects since the last Trim
}

// Get returns a free object, in the state in which it was put, or a new one.
func (s *List[T]) Get() *T {
	n := len(s.free) - 1
	if n < 0 {
		return new(T)
	}
	v := s.free[n]
	s.free = s.free[:n]
	s.least = min(s.least, n)
	return v
}

// Put returns an object to the list.
func (s *List[T]) Put(v *T) { s.free = append(s.free, v) }

// Trim releases the objects that were free since the last Trim.
func (s *List[T]) Trim() {
	if s.least > 0 {
		s.free = slices.Clone(s.free[s.least:])
	}
	s.least = len(s.free)
}

// Shrink returns a slice with less room if an eighth of it suffices.
func Shrink[T any](s []T) []T {
	if cap(s) > fewest && 8*len(s) < cap(s) {
		return append(make([]T, 0, len(s)), s...)
	}
	return s
}
