package machine

import (
	"bytes"
	"io"
	"sync"
	"time"
)

// console passes on what a guest prints, without carriage returns, and looks at each line.
type console struct {
	out io.Writer

	mu      sync.Mutex
	line    []byte // the current one
	printed time.Time
	panic   string        // the kernel's last words, "" as long as it has none
	want    []byte        // part of a line that is waited for
	seen    chan struct{} // closed when it has come
}

var panicText = []byte("Kernel panic - not syncing")

// Write takes what qemu writes to its standard output.
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
			c.look()
			c.line = c.line[:0]
		}
	}
	return len(b), nil
}

// look looks at the current line when it has ended.
func (c *console) look() {
	if i := bytes.Index(c.line, panicText); i >= 0 && c.panic == "" {
		c.panic = string(bytes.TrimSpace(c.line[i:]))
	}
	if c.want != nil && bytes.Contains(c.line, c.want) {
		c.want = nil
		close(c.seen)
	}
}

// expect returns a channel that is closed when a line with the text comes. Who waited for another
// is not told any more.
func (c *console) expect(text string) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.want, c.seen = []byte(text), make(chan struct{})
	return c.seen
}

// quiet returns how long nothing was printed.
func (c *console) quiet() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.printed)
}
