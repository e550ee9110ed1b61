package stock

// Map is a map that gives back what a burst took: one of Go keeps room for the most that it ever
// had. The zero value is empty.
type Map[K comparable, V any] struct {
	// In has what is in it, to read and to delete from. Put adds to it.
	In   map[K]V
	most int // the largest number in it since the last Trim
	room int // and since In was made
}

// fewest are so many that their room is not worth giving back.
const fewest = 64

// Put sets the value of a key.
func (m *Map[K, V]) Put(key K, value V) {
	if m.In == nil {
		m.In = make(map[K]V)
	}
	m.In[key] = value
	if n := len(m.In); n > m.most {
		m.most, m.room = n, max(n, m.room)
	}
}

// Trim makes the map anew if a fourth of its room has been enough since the last Trim.
func (m *Map[K, V]) Trim() {
	if m.room > fewest && 4*m.most <= m.room {
		in := make(map[K]V, m.most)
		for key, value := range m.In {
			in[key] = value
		}
		m.In, m.room = in, m.most
	}
	m.most = len(m.In)
}
