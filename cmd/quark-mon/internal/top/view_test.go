package top

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/cmd/quark-mon/internal/line"
	"github.com/quark-linux/quark/internal/golden"
)

// busy returns a frame with many values, some of them hostile.
func busy() (*Frame, *State) {
	f := &Frame{Now: 100 * second, Seconds: 10}
	for w := range f.Rates {
		r := &f.Rates[w]
		for i := range r.Last {
			r.Last[i] = uint32(i * i / (w + 1) % 1234)
		}
		r.Peak, r.Total = 1234, 123456789
	}
	process := func(i int, comm string, args ...string) *quark.Process {
		p := &quark.Process{PID: uint32(4000000 + i*317), Comm: comm, Image: quark.Image{Args: []byte(strings.Join(args, "\x00"))}}
		p.Known = quark.SetOf(quark.FieldComm, quark.FieldArgs, quark.FieldUIDs)
		p.Cred.UID = uint32(i % 3 * 1000)
		return p
	}
	for i, args := range [][]string{{"make", "-j8"}, {"sh", "-c", "a | b\n"}, {"größe", "日本語", "\x1b[2J"}, {}} {
		f.Trees = append(f.Trees, Tree{Counts: Counts{uint32(12345 / (i + 1)), uint32(100 * i), 7, uint32(3 * i)}, Leader: process(i, "c", args...),
			Ancestors: []string{"bash", "ev\x1b[2Jil", "sshd", "systemd"}})
	}
	f.Trees[3].Leader.Known = 0
	for i := range 9 {
		p := process(i, "false", "false", strconv.Itoa(i))
		p.Exited, p.Known = true, p.Known|quark.SetOf(quark.FieldExit)
		p.Task.Exit.WaitStatus = []int32{256, 11 | 0x80, 2 << 8}[i%3]
		f.Failures = append(f.Failures, Failure{Count: uint64(5000 * i), Over: uint64(i % 2 * 10), Last: f.Now - uint64(i*i*i)*second, Process: p})
	}
	s := &State{Backend: "ebpf", Wall: time.Unix(1e9, 0).UTC(), Processes: 432, Buffered: 120, LostNow: 12}
	s.Lost[quark.LossRingFull] = 583
	return f, s
}

func view() *View {
	return NewView(line.Options{User: func(_ *quark.Process, id uint32) string { return map[uint32]string{0: "root", 1000: "größe"}[id] }})
}

// drawn returns lines in the form that a terminal shows. It fails the test if they overlap or are
// too wide.
func drawn(t *testing.T, lines [][]Span, width int) string {
	t.Helper()
	var b bytes.Buffer
	for _, spans := range lines {
		x := 0
		for _, s := range spans {
			taken := 0
			for _, r := range s.Text {
				if taken++; r >= 0x1100 && r < 0x2500 || r > 0x2600 {
					taken++ // those of busy that are wide
				}
				if r < ' ' || r == 0x7f || r == utf8.RuneError {
					t.Fatalf("%q is for a terminal", s.Text)
				}
			}
			if s.X < x || s.X+taken > width {
				t.Fatalf("%q: got column %d after %d, width %d", s.Text, s.X, x, width)
			}
			b.WriteString(strings.Repeat(" ", s.X-x) + s.Text)
			x = s.X + taken
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func TestView(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {200, 50}, {40, 16}, {20, 5}} {
		f, s := busy()
		got := drawn(t, view().Lines(f, s, size[0], size[1]), size[0])
		golden.Compare(t, fmt.Sprintf("testdata/%dx%d.txt", size[0], size[1]), []byte(got))
	}
}

// Lines fit any size, and no number is cut.
func TestViewOfAnySize(t *testing.T) {
	number, cut := regexp.MustCompile(`\d[\d.:]*`), regexp.MustCompile(`(?m)\S+>$`)
	f, s := busy()
	for _, only := range []Table{Both, Trees, Failures} {
		v := view()
		v.Only, v.ASCII = only, true
		whole := number.FindAllString(drawn(t, v.Lines(f, s, 500, 50), 500), -1)
		slices.Sort(whole)
		for width := range 130 {
			for height := range 30 {
				lines := v.Lines(f, s, width, height)
				if len(lines) > height {
					t.Fatalf("%d lines of %d", len(lines), height)
				}
				// Arguments may be cut, but only with a mark.
				text := cut.ReplaceAllString(drawn(t, lines, width), "")
				for _, n := range number.FindAllString(text, -1) {
					if _, ok := slices.BinarySearch(whole, n); !ok {
						t.Fatalf("%dx%d: %s is not a number of\n%s", width, height, n, text)
					}
				}
			}
		}
	}
	drawn(t, view().Lines(new(Frame), new(State), 80, 24), 80)
}

func TestKeys(t *testing.T) {
	f, s := busy()
	v := view()
	seen := make(map[string]bool)
	for _, key := range "psssSSvvvp " {
		if !v.Key(key) {
			t.Errorf("%q is no key", key)
		}
		seen[drawn(t, v.Lines(f, s, 80, 40), 80)] = true
	}
	if len(seen) != 8 {
		t.Errorf("%d screens", len(seen))
	}
	if v.Key('x') {
		t.Error("x is a key")
	}
}
