package matrix

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Display shows the progress of a run: on a terminal a line for each running guest, below those
// that have ended; elsewhere a line when a guest begins and one when it ends.
type Display struct {
	w     io.Writer
	width int // of the terminal; 0: no terminal
	total int

	mu      sync.Mutex
	ended   int
	running map[string]Progress
	began   map[string]time.Time
	drawn   int // lines on the terminal that the next draw replaces
	stop    chan struct{}
	stopped sync.WaitGroup
}

// NewDisplay shows total guests on w, a terminal of that width, or no terminal when it is 0.
func NewDisplay(w io.Writer, width, total int) *Display {
	d := &Display{w: w, width: width, total: total, running: make(map[string]Progress), began: make(map[string]time.Time),
		stop: make(chan struct{})}
	if width == 0 {
		return d
	}
	d.stopped.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-d.stop:
				return
			case <-tick.C:
				d.mu.Lock()
				d.draw("")
				d.mu.Unlock()
			}
		}
	})
	return d
}

// Tell shows what a guest does.
func (d *Display) Tell(p Progress) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p.Since = time.Now()
	if d.began[p.Guest].IsZero() {
		d.began[p.Guest] = p.Since
		if d.width == 0 {
			fmt.Fprintf(d.w, "%s: booting\n", p.Guest)
		}
	}
	if p.At == "" {
		p.At = d.running[p.Guest].At
	}
	d.running[p.Guest] = p
	d.draw("")
}

// Done shows how a guest ended.
func (d *Display) Done(o Outcome) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.running, o.Guest)
	d.ended++
	passed, failed, skipped := Results{Guests: []Outcome{o}}.Count()
	line := fmt.Sprintf("[%d/%d] %s: %s: %d passed, %d failed, %d skipped", d.ended, d.total, o.Guest, o.State, passed, failed, skipped)
	if o.Cached {
		line += ", cached"
	} else {
		line += ", " + seconds(o.TotalMS) + " s"
	}
	if !o.State.Good() {
		line += ": " + o.Reason
	}
	if d.width == 0 {
		fmt.Fprintln(d.w, line)
	}
	d.draw(line + "\n")
}

// Close ends the display and removes the lines of running guests.
func (d *Display) Close() {
	close(d.stop)
	d.stopped.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.running)
	d.draw("")
}

// draw removes the lines of running guests from the terminal, adds a line that stays, and draws
// them again.
func (d *Display) draw(stays string) {
	if d.width == 0 {
		return
	}
	var b strings.Builder
	if d.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\x1b[J", d.drawn)
	}
	b.WriteString(stays)
	now := time.Now()
	for _, name := range slices.Sorted(maps.Keys(d.running)) {
		p := d.running[name]
		line := fmt.Sprintf("  %-28s %4.0f s  %3d/%-3d", name, now.Sub(d.began[name]).Seconds(), p.Done, p.Planned)
		if p.Failed > 0 {
			line += fmt.Sprintf(" %d failed", p.Failed)
		}
		line += fmt.Sprintf("  %s (%.0f s)", p.At, now.Sub(p.Since).Seconds())
		if runes := []rune(line); len(runes) > d.width-1 {
			line = string(runes[:d.width-1])
		}
		b.WriteString(line + "\n")
	}
	d.drawn = len(d.running)
	io.WriteString(d.w, b.String())
}
