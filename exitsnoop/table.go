package exitsnoop

import (
	"os"
	"sync"

	"github.com/cilium/ebpf"
)

// closing lets a map be closed only while no call uses it, since the kernel may reuse its
// descriptor for another file afterwards.
type closing struct {
	mu     sync.RWMutex // held for reading while a map is used; no other lock is taken then
	closed bool
}

// use calls f, which uses a map, or returns os.ErrClosed.
func (c *closing) use(f func() error) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if c.closed {
		return os.ErrClosed
	}
	return f()
}

// begin makes use return os.ErrClosed from now on, and returns when no map is in use.
func (c *closing) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
}

// table is a map of a store. Methods that need its descriptor return os.ErrClosed after Close.
type table struct {
	m *ebpf.Map
	c *closing
}

// MaxEntries returns the capacity.
func (t table) MaxEntries() uint32 { return t.m.MaxEntries() }

func (t table) Lookup(key, value any) error {
	return t.c.use(func() error { return t.m.Lookup(key, value) })
}

func (t table) Update(key, value any, flags ebpf.MapUpdateFlags) error {
	return t.c.use(func() error { return t.m.Update(key, value, flags) })
}

func (t table) Delete(key any) error {
	return t.c.use(func() error { return t.m.Delete(key) })
}

func (t table) BatchLookup(cursor *ebpf.MapBatchCursor, keys, values any) (n int, err error) {
	err = t.c.use(func() (err error) {
		n, err = t.m.BatchLookup(cursor, keys, values, nil)
		return err
	})
	return n, err
}
