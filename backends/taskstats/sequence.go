package taskstats

// sequence finds lost records by gaps in the numbers that a socket receives, which the kernel
// counts for each CPU. A thread that moves to another CPU between the two steps takes a number of
// the one to the socket of the other: there it is foreign, and missing here.
type sequence struct {
	seen    bool
	next    uint32 // expected number
	odd     uint32 // another one that came instead, if strange is set: the one after it tells
	strange bool
	missing uint64 // numbers, those that are foreign elsewhere too
	foreign uint64
}

// saw accounts for a record, of a socket that has dropped so many.
func (s *sequence) saw(number uint32, dropped uint64) {
	if !s.seen {
		s.seen, s.next = true, number
	}
	ahead := uint64(s.odd - s.next)
	switch {
	case number == s.next:
		s.next++
		s.foreigner()
		return
	case !s.strange:
	case number == s.odd+1 && int32(ahead) > 0, s.missing+ahead <= dropped: // it is of this CPU
		s.missing += ahead
		s.strange, s.next = false, s.odd+1
		s.saw(number, dropped)
		return
	default:
		s.foreigner()
	}
	s.odd, s.strange = number, true
}

// foreigner counts the odd number as foreign, if there is one.
func (s *sequence) foreigner() {
	if s.strange {
		s.strange = false
		s.foreign++
	}
}
