package cnproc

// sequence finds lost messages by gaps in the kernel's per-CPU sequence numbers.
type sequence struct {
	cpus []cpuSequence
	gaps uint64 // missing numbers, less those that arrived late
}

type cpuSequence struct {
	seen  bool
	first uint32 // number of the first message
	next  uint64 // expected number; the wire has its low 32 bits
	time  uint64 // time stamp of the latest message
}

// saw accounts for a message and returns its number extended to 64 bits. Since Linux 4.10 the
// messages of a CPU arrive in order. Before, two can be swapped: the later one first counts as
// lost, and is subtracted from the gaps when it arrives.
func (s *sequence) saw(cpu, seq uint32, time uint64) uint64 {
	for int(cpu) >= len(s.cpus) {
		s.cpus = append(s.cpus, cpuSequence{})
	}
	c := &s.cpus[cpu]
	c.time = max(c.time, time)
	if !c.seen {
		// Numbers start at 2^32, so that a late message before the first stays positive.
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

// last returns the time stamp of the latest message of a CPU, 0 if there is none.
func (s *sequence) last(cpu uint32) uint64 {
	if int(cpu) < len(s.cpus) {
		return s.cpus[cpu].time
	}
	return 0
}

// settled reports whether every CPU that sent a message before has sent one stamped after time.
func (s *sequence) settled(time uint64) bool {
	for i := range s.cpus {
		if s.cpus[i].seen && s.cpus[i].time <= time {
			return false
		}
	}
	return true
}
