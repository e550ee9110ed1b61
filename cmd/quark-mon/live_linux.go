package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/cmd/quark-mon/internal/line"
	"github.com/quark-linux/quark/cmd/quark-mon/internal/top"
	"github.com/quark-linux/quark/internal/clock"
)

// live is the screen of top. The monitor counts events, and makes a frame each second. A goroutine
// draws the frames, so a blocked terminal does not delay events.
type live struct {
	q      *quark.Queue
	model  *top.Model
	view   *top.View // used by the goroutine only
	out    *os.File  // the terminal, for writing
	keys   *os.File  // the terminal, for reading
	colour bool
	stop   func()
	frames chan frame
	clear  atomic.Bool // set by a key, for the monitor
	closed sync.Once
	// drawing is locked during a write to the screen, and protects ended.
	drawing sync.Mutex
	ended   bool
	saved   *term.State
	lost    uint64 // lost events up to the last frame
}

type frame struct {
	*top.Frame
	state top.State
}

// Sequences of xterm(1), which other terminals understand or ignore. They switch to the alternate
// screen without a cursor, and back.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[2J"
	leaveScreen = "\x1b[m\x1b[?25h\x1b[?1049l"
)

// newLive opens the screen on the terminal out. stop is called when the user quits or the terminal
// closes.
func newLive(m *monitor, out *os.File, stop func()) (l *live, err error) {
	names := quark.NewNames()
	l = &live{
		q: m.q, model: top.New(clock.Monotonic(), cmp.Or(m.Queue.HoldTime, time.Second)), view: top.NewView(line.Options{User: names.User}),
		out: out, colour: colourful(), stop: stop, frames: make(chan frame, 1),
	}
	_, _ = time.Now().Zone() // loads the time zone, before -D changes the root
	// Only a file that is opened here can be closed during a read.
	if l.keys, err = os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", out.Fd()), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return nil, err
	}
	if l.saved, err = term.MakeRaw(int(out.Fd())); err != nil {
		return nil, err
	}
	locale := strings.ToUpper(cmp.Or(os.Getenv("LC_ALL"), os.Getenv("LC_CTYPE"), os.Getenv("LANG")))
	l.view.ASCII = !strings.Contains(locale, "UTF-8") && !strings.Contains(locale, "UTF8")
	if err := l.tick(); err != nil {
		l.close()
		return nil, err
	}
	go l.run()
	return l, nil
}

// checkTerminal returns the reason if top cannot be shown on out.
func checkTerminal(out io.Writer) error {
	if terminal(out) < 0 {
		return errors.New("top needs a terminal as its output: use -M -j to print statistics")
	}
	if t := os.Getenv("TERM"); t == "" || t == "dumb" {
		return fmt.Errorf("top needs a terminal with cursor control: TERM is %q", t)
	}
	return nil
}

func (l *live) count(ev *quark.Event) { l.model.Count(ev, l.q.Ancestors) }

// tick makes a frame. The frame replaces an earlier frame that is not drawn yet.
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
	select {
	case <-l.frames:
	default:
	}
	l.frames <- f
	return nil
}

// run draws frames and handles keys until the screen is closed.
func (l *live) run() {
	defer l.close() // also after a panic
	l.onScreen(func() { io.WriteString(l.out, enterScreen) })
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, unix.SIGWINCH)
	defer signal.Stop(resized)
	pressed := make(chan []byte)
	go l.read(pressed)
	var shown frame
	for {
		select {
		case keys, ok := <-pressed:
			if !ok {
				return
			}
			l.handle(keys)
		case <-resized:
			l.onScreen(func() { io.WriteString(l.out, "\x1b[2J") })
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

// read sends the typed keys until the terminal or the screen is closed.
func (l *live) read(pressed chan<- []byte) {
	defer close(pressed)
	for {
		b := make([]byte, 32)
		n, err := l.keys.Read(b)
		if err != nil || n == 0 {
			l.stop()
			return
		}
		pressed <- b[:n]
	}
}

// handle performs the action of a key. Keys that send escape sequences have no action.
func (l *live) handle(keys []byte) {
	if keys[0] == '\x1b' {
		return
	}
	for _, key := range keys {
		switch key {
		case 'q', 'C' - '@':
			l.stop()
		case 'L' - '@':
			l.onScreen(func() { io.WriteString(l.out, "\x1b[2J") })
		case 'c':
			l.clear.Store(true)
		default:
			l.view.Key(rune(key))
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

// draw writes a frame in one write, so that the screen does not flicker.
func (l *live) draw(f *frame) {
	width, height, err := term.GetSize(int(l.out.Fd()))
	if err != nil {
		return
	}
	var b bytes.Buffer
	lines := l.view.Lines(f.Frame, &f.state, width, height)
	for y := range height {
		fmt.Fprintf(&b, "\x1b[%d;1H\x1b[K", y+1)
		if y >= len(lines) {
			continue
		}
		for _, s := range lines[y] {
			style := s.Style
			if !l.colour {
				style = strings.TrimSuffix(strings.TrimSuffix(style, "31"), ";")
			}
			fmt.Fprintf(&b, "\x1b[%d;%dH", y+1, s.X+1)
			if style != "" {
				fmt.Fprintf(&b, "\x1b[%sm", style)
			}
			b.WriteString(strings.Map(printable, s.Text))
			if style != "" {
				b.WriteString("\x1b[m")
			}
		}
	}
	l.out.Write(b.Bytes())
}

// printable replaces a character that could be a command to the terminal.
func printable(r rune) rune {
	if unicode.IsControl(r) {
		return '?'
	}
	return r
}

// close restores the terminal. Any goroutine may call it, more than once.
func (l *live) close() {
	l.closed.Do(func() {
		done := make(chan struct{})
		go func() {
			defer close(done)
			l.onScreen(func() {
				l.ended = true
				io.WriteString(l.out, leaveScreen)
			})
		}()
		select {
		case <-done:
		case <-time.After(time.Second): // the terminal blocks
		}
		_ = term.Restore(int(l.out.Fd()), l.saved)
		l.keys.Close()
	})
}
