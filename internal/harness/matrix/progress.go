package matrix

import (
	"fmt"
	"io"
	"sync"
)

// Display prints a line when a guest begins and one when it ends. Goroutines may share it.
type Display struct {
	W     io.Writer
	Total int // guests

	mu    sync.Mutex
	ended int
}

// Begin shows that a guest boots.
func (d *Display) Begin(guest string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Fprintf(d.W, "%s: booting\n", guest)
}

// End shows how a guest ended.
func (d *Display) End(o Outcome) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended++
	passed, failed, skipped := Results{Guests: []Outcome{o}}.Count()
	line := fmt.Sprintf("[%d/%d] %s: %s: %d passed, %d failed, %d skipped", d.ended, d.Total, o.Guest, o.State, passed, failed, skipped)
	if o.Cached {
		line += ", cached"
	} else {
		line += ", " + seconds(o.TotalMS) + " s"
	}
	if !o.State.Good() {
		line += ": " + o.Reason
	}
	fmt.Fprintln(d.W, line)
}
