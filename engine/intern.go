package engine

import "encoding/binary"

// interner returns the same string for equal bytes, so that processes share one copy of a path and
// a warm engine allocates no strings. It keeps two generations of strings. When the young
// generation is full, strings of the old generation that were not requested meanwhile are dropped,
// which bounds the memory.
type interner struct {
	recent     [256]string // the last requested strings, by recentIndex
	young, old map[string]string
	bytes      int // total length of the strings in young
}

// recentIndex is cheaper than the hash of a map: it takes the length and the end of b,
// where paths differ. b is not empty.
func recentIndex(b []byte) uint8 {
	h := uint64(len(b))
	if len(b) >= 8 {
		h += binary.LittleEndian.Uint64(b[len(b)-8:])
	} else {
		h += uint64(b[0])<<8 | uint64(b[len(b)/2])<<16 | uint64(b[len(b)-1])<<24
	}
	return uint8(h * 0x9e3779b97f4a7c15 >> 56)
}

// Limits of a generation: number of strings, and their total length.
const (
	internGeneration = 1024
	internBytes      = 128 << 10
)

func (in *interner) get(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	recent := &in.recent[recentIndex(b)]
	if *recent == string(b) {
		return *recent
	}
	s := in.lookup(b)
	*recent = s
	return s
}

func (in *interner) lookup(b []byte) string {
	if s, ok := in.young[string(b)]; ok {
		return s
	}
	s, ok := in.old[string(b)]
	if !ok {
		s = string(b)
	}
	if len(in.young) >= internGeneration || in.bytes >= internBytes || in.young == nil {
		// The old map is cleared and reused: maps keep their storage.
		in.young, in.old = in.old, in.young
		if in.young == nil {
			in.young = make(map[string]string)
		}
		clear(in.young)
		in.bytes = 0
	}
	in.bytes += len(s)
	in.young[s] = s
	return s
}
