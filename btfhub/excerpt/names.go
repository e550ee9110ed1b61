package excerpt

// names is a set of names, with a fast test of the first two characters.
type names struct {
	all   map[string]bool
	first [1 << 16 / 64]uint64 // bits
}

func newNames() *names { return &names{all: make(map[string]bool)} }

func (n *names) add(name string) {
	if name == "" || n.all[name] {
		return
	}
	n.all[name] = true
	first := uint(name[0])
	if len(name) > 1 {
		first |= uint(name[1]) << 8
	}
	n.first[first/64] |= 1 << (first % 64)
}

// maybe reports whether the set has a name with the same first two characters.
func (n *names) maybe(strings []byte, at uint32) bool {
	if uint64(at)+1 >= uint64(len(strings)) {
		return false // too short for a character and the final NUL
	}
	first := uint(strings[at]) | uint(strings[at+1])<<8
	return n.first[first/64]>>(first%64)&1 != 0
}

func (n *names) has(name []byte) bool { return n.all[string(name)] }
