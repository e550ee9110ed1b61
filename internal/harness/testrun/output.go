package testrun

import (
	"bytes"
	"io"
	"sync"
)

// output collects what a child writes, one log after the other.
type output struct {
	mu     sync.Mutex
	change sync.Cond
	buf    []byte
	ends   int // logs in buf that are whole
	closed bool
}

// maxOutput bounds the memory for the output of a test gone wild. Its end stays.
const maxOutput = 16 << 20

// collect reads until all who could write are gone.
func collect(r io.Reader) *output {
	o := new(output)
	o.change.L = &o.mu
	go func() {
		io.Copy(o, r)
		o.mu.Lock()
		defer o.mu.Unlock()
		o.closed = true
		o.change.Broadcast()
	}()
	return o
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.buf)+len(b) > maxOutput && o.ends == 0 {
		o.buf = append(o.buf[:0], o.buf[len(o.buf)/2:]...)
	}
	from := max(0, len(o.buf)-len(endOfLog)+1)
	o.buf = append(o.buf, b...)
	o.ends += bytes.Count(o.buf[from:], []byte(endOfLog))
	o.change.Broadcast()
	return len(b), nil
}

// next waits for the end of a log, or of all, and returns what that holds.
func (o *output) next() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.ends == 0 && !o.closed {
		o.change.Wait()
	}
	log, rest, whole := bytes.Cut(o.buf, []byte(endOfLog))
	if whole {
		o.ends--
	}
	o.buf = append([]byte(nil), rest...)
	return log
}
