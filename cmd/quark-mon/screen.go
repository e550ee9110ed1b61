package main

import (
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/cmd/quark-mon/internal/line"
)

// screen prints events as lines. On a terminal it cuts them to the width.
type screen struct {
	*line.Printer
	fd int // descriptor of the terminal, or -1
}

// terminal returns the descriptor of out if it is a terminal, else -1.
func terminal(out io.Writer) int {
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return int(f.Fd())
	}
	return -1
}

// newScreen returns a printer for the lines of m, which stays usable after a change of the root
// directory.
func newScreen(m *monitor, out io.Writer) *screen {
	s := &screen{fd: terminal(out)}
	o := line.Options{Columns: m.columns, Colour: s.fd >= 0 && colourful(), Clock: m.q.Clock(), Zone: time.Local}
	_, _ = time.Now().Zone() // loads the time zone
	if !m.recorded {
		names := quark.NewNames()
		o.User, o.Group = names.User, names.Group
	}
	s.Printer = line.New(o)
	s.fit()
	return s
}

// colourful reports whether the terminal has colours and the user wants them: see no-color.org.
func colourful() bool {
	t := os.Getenv("TERM")
	return os.Getenv("NO_COLOR") == "" && t != "" && t != "dumb"
}

// fit sets the size of the terminal, which may have changed.
func (s *screen) fit() {
	if s.fd >= 0 {
		if width, height, err := term.GetSize(s.fd); err == nil {
			s.SetSize(width, height)
		}
	}
}
