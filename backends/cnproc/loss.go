package cnproc

// sequence counts what is missing in the kernel's per-CPU numbers.
type sequence struct {
	cpus []cpuSequence
	gaps uint64 // numbers that were skipped and have not come late
}

type cpuSequence struct {
	seen  bool
	first uint32 // number of the first message
	next  uint64 // the number expected; its low 32 bits are on the wire
	time  uint64 // stamp of the latest message
}

// saw takes note of a message and returns its number without the wrap.
// Messages of one CPU come in order since Linux 4.10; before, two can change
// places, and the one that comes late takes back the loss that it seemed to be.
func (s *sequence) saw(cpu, seq uint32, time uint64) uint64 {
	for int(cpu) >= len(s.cpus) {
		s.cpus = append(s.cpus, cpuSequence{})
	}
	c := &s.cpus[cpu]
	c.time = max(c.time, time)
	if !c.seen {
		// Start one lap up, so that a late message needs no number below zero.
		c.seen, c.first, c.next = true, seq, 1<<32|uint64(seq)
	}
	ahead := int32(seq - uint32(c.next))
	if ahead < 0 {
		if s.gaps > 0 {
			s.gaps--
		}
		return c.next - uint64(-int64(ahead))
	}
	s.gaps += uint64(ahead)
	n := c.next + uint64(ahead)
	c.next = n + 1
	return n
}

// last returns the stamp of the latest message of a CPU, 0 for none.
func (s *sequence) last(cpu uint32) uint64 {
	if int(cpu) < len(s.cpus) {
		return s.cpus[cpu].time
	}
	return 0
}

// settled reports whether every CPU that has been seen has delivered a message
// that was made after time.
func (s *sequence) settled(time uint64) bool {
	for i := range s.cpus {
		if s.cpus[i].seen && s.cpus[i].time <= time {
			return false
		}
	}
	return true
}
