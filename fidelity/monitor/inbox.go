package monitor

import "sync"

// maxInbox limits the bytes that wait to be decoded. It exceeds the output for one second of load
// on a large machine.
const maxInbox = 1 << 30

// inbox buffers the output of a monitor until it is decoded, so that a slow decoder never delays
// the reader. While it is held, decoding pauses.
type inbox struct {
	most    int // limit in bytes
	mu      sync.Mutex
	changed *sync.Cond
	list    []chunk
	size    int // bytes in list
	held    bool
	over    bool
	drops   bool
}

// chunk is the result of one read, at a time of CLOCK_MONOTONIC.
type chunk struct {
	text []byte
	at   uint64
}

func newInbox(most int) *inbox {
	b := &inbox{most: most}
	b.changed = sync.NewCond(&b.mu)
	return b
}

// drop discards later chunks and the buffered chunks except one, which may explain the end.
func (b *inbox) drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list, b.size, b.drops = b.list[:min(1, len(b.list))], 0, true
}

// dropping reports whether drop was called.
func (b *inbox) dropping() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.drops
}

// put adds a copy of text, and reports whether it fits.
func (b *inbox) put(text []byte, at uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.drops {
		return true
	}
	if b.size+len(text) > b.most {
		return false
	}
	b.size += len(text)
	b.list = append(b.list, chunk{append([]byte(nil), text...), at})
	b.changed.Signal()
	return true
}

// close marks the end of the input.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = true
	b.changed.Signal()
}

func (b *inbox) hold(held bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held = held
	b.changed.Signal()
}

// receive waits for chunks and returns them. ok is false after the last ones.
func (b *inbox) receive() (list []chunk, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.held || len(b.list) == 0 && !b.over {
		b.changed.Wait()
	}
	list, b.list, b.size = b.list, nil, 0
	return list, len(list) > 0
}
