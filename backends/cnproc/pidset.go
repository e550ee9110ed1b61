package cnproc

// pidsPerChunk are so many that few chunks are in use; PID_MAX_LIMIT is 1 << 22.
const pidsPerChunk = 1 << 12

// pidSet is a set of processes.
type pidSet [1 << 22 / pidsPerChunk]*[pidsPerChunk / 64]uint64

// bit returns where the bit of a process is, nil if there can be no such process.
func (s *pidSet) bit(pid uint32) (word *uint64, mask uint64) {
	i := pid / pidsPerChunk
	if int(i) >= len(s) {
		return nil, 0
	}
	if s[i] == nil {
		s[i] = new([pidsPerChunk / 64]uint64)
	}
	return &s[i][pid%pidsPerChunk/64], 1 << (pid % 64)
}

func (s *pidSet) set(pid uint32, in bool) {
	switch word, mask := s.bit(pid); {
	case word == nil:
	case in:
		*word |= mask
	default:
		*word &^= mask
	}
}

func (s *pidSet) has(pid uint32) bool {
	word, mask := s.bit(pid)
	return word != nil && *word&mask != 0
}

func (s *pidSet) clear() {
	for _, chunk := range s {
		if chunk != nil {
			clear(chunk[:])
		}
	}
}
