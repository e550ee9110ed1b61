package cnproc

// sequence finds lost messages by gaps in the kernel's sequence numbers: the messages of a CPU come
// in their order.
type sequence struct {
	cpus []cpuSequence
	gaps uint64 // missing numbers
}

type cpuSequence struct {
	seen  bool
	first uint32 // number of the first message
	next  uint64 // expected number; the wire has its low 32 bits
	time  uint64 // time stamp of the latest message
}

// saw counts a message and returns its number extended to 64 bits.
func (s *sequence) saw(cpu, seq uint32, time uint64) uint64 {
	for int(cpu) >= len(s.cpus) {
		s.cpus = append(s.cpus, cpuSequence{})
	}
	c := &s.cpus[cpu]
	c.time = max(c.time, time)
	if !c.seen {
		c.seen, c.first, c.next = true, seq, uint64(seq)
	}
	ahead := uint64(max(int32(seq-uint32(c.next)), 0))
	s.gaps += ahead
	c.next += ahead + 1
	return c.next - 1
}

// last returns the time stamp of the latest message of a CPU, 0 if there is none.
func (s *sequence) last(cpu uint32) uint64 {
	if int(cpu) < len(s.cpus) {
		return s.cpus[cpu].time
	}
	return 0
}
