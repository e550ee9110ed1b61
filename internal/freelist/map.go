package freelist

// Map is a map that releases the memory of a burst: a Go map never shrinks. The zero value is
// empty.
type Map[K comparable, V any] struct {
	// In is the map, for reading and deleting. Add entries with Put.
	In   map[K]V
	most int // largest size since the last Trim
	room int // largest size since In was created
}

// fewest is the size below which trimming is not worth it.
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

// Trim recreates the map if a fourth of its room was enough since the last Trim.
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
