package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gdamore/tcell/v2"
	"golang.org/x/term"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/cmd/quark-mon/internal/line"
	"github.com/quark-linux/quark/cmd/quark-mon/internal/top"
	"github.com/quark-linux/quark/internal/clock"
	"github.com/quark-linux/quark/internal/selfcost"
)

// live is the screen of top. The monitor counts, and makes a frame a second; a goroutine draws, so
// that a terminal that takes nothing does not delay events.
type live struct {
	q      *quark.Queue
	model  *top.Model
	view   *top.View // the goroutine's
	screen tcell.Screen
	colour bool
	stop   func()
	frames chan frame
	clear  atomic.Bool // asked for by a key
	closed sync.Once
	// drawing is held while something is drawn. What Fini writes is lost if something is drawn
	// meanwhile, and the terminal stays with the other screen.
	drawing sync.Mutex
	ended   bool // Fini has been called
	fd      int  // of the terminal, and how it was
	saved   *term.State
	cost    cost
	lost    uint64 // up to the last frame
}

type frame struct {
	*top.Frame
	state top.State
}

// newLive opens the screen on the terminal that out is. stop is called when the user is through, or
// the terminal is closed.
func newLive(m *monitor, out *os.File, stop func()) (l *live, err error) {
	names := quark.NewNames()
	l = &live{
		q: m.q, model: top.New(clock.Monotonic(), cmp.Or(m.Queue.HoldTime, time.Second)), view: top.NewView(line.Options{User: names.User}),
		colour: colourful(), stop: stop, frames: make(chan frame, 1), fd: int(out.Fd()),
	}
	_, _ = time.Now().Zone()                             // reads the time zone
	if l.cost.meter, err = selfcost.Open(); err != nil { // before -D changes the root directory
		return nil, err
	}
	if l.saved, err = term.GetState(l.fd); err != nil {
		return nil, err
	}
	tty, err := tcell.NewDevTtyFromDev(fmt.Sprintf("/proc/self/fd/%d", l.fd))
	if err != nil {
		return nil, err
	}
	if l.screen, err = tcell.NewTerminfoScreenFromTty(tty); err != nil {
		return nil, err
	}
	if err := l.screen.Init(); err != nil {
		return nil, err
	}
	l.view.ASCII = l.screen.CharacterSet() != "UTF-8"
	if err := l.tick(); err != nil {
		l.close()
		return nil, err
	}
	go l.run()
	return l, nil
}

// checkTerminal returns why top can't be shown on out.
func checkTerminal(out io.Writer) error {
	if terminal(out) < 0 {
		return errors.New("top needs a terminal, and its output is none: -M -j prints statistics")
	}
	if t := os.Getenv("TERM"); t == "" || t == "dumb" {
		return fmt.Errorf("top needs a terminal whose cursor moves: TERM is %q", t)
	} else if _, err := tcell.LookupTerminfo(t); err != nil {
		return fmt.Errorf("top finds no description of a terminal that is called %q: set TERM to another, such as xterm", t)
	}
	return nil
}

func (l *live) count(ev *quark.Event) { l.model.Count(ev, l.q.Ancestors) }

// tick makes a frame, in place of one that was not drawn yet.
func (l *live) tick() error {
	if l.clear.Swap(false) {
		l.model.Clear()
	}
	s, err := l.q.Stats()
	if err != nil {
		return err
	}
	f := frame{
		l.model.Frame(clock.Monotonic(), l.q.LookupIdentity, l.q.Ancestors),
		top.State{
			Backend: s.Backend, Wall: time.Now(), Processes: s.Processes, Buffered: s.Buffered,
			Lost: s.Source.Lost, LostNow: s.Lost() - l.lost, Bound: s.Source.Bound,
		},
	}
	l.lost = s.Lost()
	f.state.CPU, f.state.RSS = l.cost.measure()
	select {
	case <-l.frames:
	default:
	}
	l.frames <- f
	return nil
}

// cost is what this process takes.
type cost struct {
	meter *selfcost.Meter
	cpu   time.Duration // at the time of the last measurement
	at    uint64
}

// measure returns the CPU time since the last call in percent, and the resident set in bytes.
func (c *cost) measure() (percent float64, rss uint64) {
	cpu, at := c.meter.CPU(), clock.Monotonic()
	if c.at != 0 && at > c.at {
		percent = 100 * float64(cpu-c.cpu) / float64(at-c.at)
	}
	c.cpu, c.at = cpu, at
	return percent, c.meter.Resident()
}

// run draws frames and does what keys are for until the screen is closed.
func (l *live) run() {
	defer l.screen.Fini() // after a panic
	events := make(chan tcell.Event)
	go l.screen.ChannelEvents(events, nil)
	var shown frame
	for {
		select {
		case ev, ok := <-events:
			if !ok {
				return
			}
			l.handle(ev)
		case f := <-l.frames:
			if l.view.Paused {
				continue
			}
			shown = f
		}
		if shown.Frame != nil {
			l.onScreen(func() { l.draw(&shown) })
		}
	}
}

func (l *live) handle(ev tcell.Event) {
	switch ev := ev.(type) {
	case *tcell.EventError: // the terminal is closed
		l.stop()
	case *tcell.EventKey:
		switch key := ev.Key(); {
		case key == tcell.KeyCtrlC, key == tcell.KeyRune && ev.Rune() == 'q':
			l.stop()
		case key == tcell.KeyCtrlL:
			l.onScreen(l.screen.Sync)
		case key == tcell.KeyRune && ev.Rune() == 'c':
			l.clear.Store(true)
		case key == tcell.KeyRune:
			l.view.Key(ev.Rune())
		}
	}
}

// onScreen lets f draw unless the screen is closed.
func (l *live) onScreen(f func()) {
	l.drawing.Lock()
	defer l.drawing.Unlock()
	if !l.ended {
		f()
	}
}

func (l *live) draw(f *frame) {
	width, height := l.screen.Size()
	l.screen.Clear()
	for y, spans := range l.view.Lines(f.Frame, &f.state, width, height) {
		for _, s := range spans {
			l.screen.PutStrStyled(s.X, y, s.Text, l.style(s.Style))
		}
	}
	l.screen.Show()
}

// style returns the style that the numbers of an escape sequence set.
func (l *live) style(numbers string) (s tcell.Style) {
	for n := range strings.SplitSeq(numbers, ";") {
		switch n {
		case "1":
			s = s.Bold(true)
		case "2":
			s = s.Dim(true)
		case "31":
			if l.colour {
				s = s.Foreground(tcell.PaletteColor(1))
			}
		}
	}
	return s
}

// close leaves the terminal as it was. It may be called again, and from any goroutine.
func (l *live) close() {
	l.closed.Do(func() {
		done := make(chan struct{})
		go func() {
			defer close(done)
			l.onScreen(func() {
				l.ended = true
				l.screen.Fini()
			})
		}()
		select {
		case <-done:
		case <-time.After(time.Second): // it takes nothing
			_ = term.Restore(l.fd, l.saved)
		}
		l.cost.meter.Close()
	})
}
