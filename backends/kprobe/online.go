package kprobe

import (
	"fmt"
	"slices"
)

// rings implements [perf.Rings].
type rings struct{ *Source }

func (s rings) Add(number int) error { return s.addCPU(number) }

func (s rings) Miss(number int) {
	s.blind = true
	if !slices.Contains(s.unseen, number) {
		s.unseen = append(s.unseen, number)
	}
}

func (s rings) Failed(number int, err error) {
	note := fmt.Sprintf("CPU %d came online without a ring, its events are missing: %v", number, err)
	if !slices.Contains(s.capabilities.Notes, note) {
		s.capabilities.Notes = append(s.capabilities.Notes, note)
	}
}
