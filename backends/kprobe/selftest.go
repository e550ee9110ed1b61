package kprobe

import "github.com/quark-linux/quark/backends/internal/selftest"

// selfTest checks the values that are fetched through types that may not be the running kernel's.
// Counting starts after it.
func (s *Source) selfTest() error {
	_, err := selftest.Run(&s.capabilities, s)
	s.handed, s.lost, s.decode = 0, 0, 0
	return err
}
