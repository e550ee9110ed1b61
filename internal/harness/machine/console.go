package machine

import (
	"bytes"
	"io"
	"sync"
	"time"
)

// console copies the guest's output without carriage returns, and searches its lines.
type console struct {
	out io.Writer

	mu      sync.Mutex
	line    []byte        // the unfinished line
	printed time.Time     // time of the last output
	panic   string        // the kernel's panic message, "" for none
	want    []byte        // text that expect waits for
	seen    chan struct{} // closed when the text was printed
}

var panicText = []byte("Kernel panic - not syncing")

// Write processes the next part of qemu's standard output.
func (c *console) Write(b []byte) (int, error) {
	text := bytes.ReplaceAll(b, []byte("\r"), nil)
	if _, err := c.out.Write(text); err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.printed = time.Now()
	for line := range bytes.Lines(text) {
		c.line = append(c.line, line...)
		if line[len(line)-1] == '\n' {
			c.search()
			c.line = c.line[:0]
		}
	}
	return len(b), nil
}

// search searches the finished line for a panic and for the expected text.
func (c *console) search() {
	if i := bytes.Index(c.line, panicText); i >= 0 && c.panic == "" {
		c.panic = string(bytes.TrimSpace(c.line[i:]))
	}
	if c.want != nil && bytes.Contains(c.line, c.want) {
		c.want = nil
		close(c.seen)
	}
}

// expect returns a channel that is closed when a line with the text comes. It ends the wait for an
// earlier text.
func (c *console) expect(text string) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.want, c.seen = []byte(text), make(chan struct{})
	return c.seen
}

// quiet returns the time since the last output.
func (c *console) quiet() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.printed)
}
