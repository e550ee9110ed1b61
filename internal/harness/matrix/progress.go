package matrix

import (
	"fmt"
	"io"
	"sort"
	"strings"
	"sync"
	"time"
)

// Display shows a run while it goes on: on a terminal a line for each guest that runs, below those
// that have ended; elsewhere a line when a guest begins and one when it ends.
type Display struct {
	w     io.Writer
	width int // of the terminal; 0 for none
	total int

	mu      sync.Mutex
	ended   int
	running map[string]Progress
	began   map[string]time.Time
	drawn   int // lines on the terminal that are drawn again
	stop    chan struct{}
	stopped sync.WaitGroup
}

// NewDisplay shows total guests on w, a terminal of that width, or no terminal when it is 0.
func NewDisplay(w io.Writer, width, total int) *Display {
	d := &Display{w: w, width: width, total: total, running: make(map[string]Progress), began: make(map[string]time.Time),
		stop: make(chan struct{})}
	if width > 0 {
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
	}
	return d
}

// Tell notes what a guest is at.
func (d *Display) Tell(p Progress) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p.Since.IsZero() {
		p.Since = time.Now()
	}
	if _, ok := d.began[p.Guest]; !ok {
		d.began[p.Guest] = time.Now()
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
		line += fmt.Sprintf(", %.1f s", float64(o.TotalMS)/1000)
	}
	if !o.State.Good() {
		line += ": " + o.Reason
	}
	if d.width == 0 {
		fmt.Fprintln(d.w, line)
		return
	}
	d.draw(line)
}

// Close ends the display; what still runs is no longer shown.
func (d *Display) Close() {
	close(d.stop)
	d.stopped.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.running)
	d.draw("")
}

// draw takes the lines of the guests that run off the terminal, adds a line that stays, and draws
// them again.
func (d *Display) draw(stays string) {
	if d.width == 0 {
		return
	}
	var b strings.Builder
	if d.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\x1b[J", d.drawn)
	}
	if stays != "" {
		b.WriteString(stays + "\n")
	}
	names := make([]string, 0, len(d.running))
	for name := range d.running {
		names = append(names, name)
	}
	sort.Strings(names)
	now := time.Now()
	for _, name := range names {
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
	d.drawn = len(names)
	io.WriteString(d.w, b.String())
}
