package engine

// interner gives equal bytes the same string, so that the table keeps one copy
// of a path however many processes share it and a warm engine allocates none.
// It keeps the strings of two generations: those not asked for while a whole
// generation filled are forgotten, which bounds it.
type interner struct {
	young, old map[string]string
}

const internGeneration = 4096

func (in *interner) get(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if s, ok := in.young[string(b)]; ok {
		return s
	}
	s, ok := in.old[string(b)]
	if !ok {
		s = string(b)
	}
	if len(in.young) >= internGeneration || in.young == nil {
		// The old map is cleared and used again: maps keep their storage.
		in.young, in.old = in.old, in.young
		if in.young == nil {
			in.young = make(map[string]string)
		}
		clear(in.young)
	}
	in.young[s] = s
	return s
}
