package monitor

import "sync"

// maxInbox is how many bytes wait to be decoded at most. A second of all that a big machine does is
// less.
const maxInbox = 1 << 30

// inbox keeps what a monitor has printed until it is decoded, so that who reads it is never late
// because of a decoder. While it is held nothing is decoded.
type inbox struct {
	most    int // bytes
	mu      sync.Mutex
	changed *sync.Cond
	list    []chunk
	size    int // bytes in list
	held    bool
	over    bool
	drops   bool
}

// chunk is what one read has returned, at a time of CLOCK_MONOTONIC.
type chunk struct {
	text []byte
	at   uint64
}

func newInbox(most int) *inbox {
	b := &inbox{most: most}
	b.changed = sync.NewCond(&b.mu)
	return b
}

// drop forgets what waits but for one chunk, which may say why nothing more came, and all that is
// put in from now on.
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

// put adds a copy of a text. It reports whether there was room for it.
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

// close says that nothing more comes.
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

// take waits for chunks and returns them. It is false after the last ones.
func (b *inbox) take() (list []chunk, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.held || len(b.list) == 0 && !b.over {
		b.changed.Wait()
	}
	list, b.list, b.size = b.list, nil, 0
	return list, len(list) > 0
}
