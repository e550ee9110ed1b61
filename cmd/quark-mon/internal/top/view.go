package top

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/cmd/quark-mon/internal/line"
)

// State is the part of a screen that is not in a frame.
type State struct {
	Backend             string
	Wall                time.Time
	Processes, Buffered int
	Lost                [quark.NumLosses]uint64
	LostNow             uint64 // since the previous State
	Bound               bool   // Lost is a lower bound
}

// View lays out frames. Keys change its members.
type View struct {
	Paused bool
	Sort   What // order of trees
	Newest bool // sort failures by time instead of number
	Only   Table
	ASCII  bool // the terminal has only ASCII
	line   *line.Printer
	cells  struct{ user, pid, args, status line.Column }
}

// Table selects the rows that are shown below the rates.
type Table int

const (
	Both Table = iota
	Trees
	Failures
	numTables
)

// NewView returns a view that takes the names of users from o.
func NewView(o line.Options) *View {
	v := &View{line: line.New(o)}
	columns, err := line.Parse("user,pid,args,status")
	if err != nil {
		panic(err) // the names of columns are constant
	}
	v.cells.user, v.cells.pid, v.cells.args, v.cells.status = columns[0], columns[1], columns[2], columns[3]
	return v
}

// Key performs the action of a key, and reports whether the key has one.
func (v *View) Key(key rune) bool {
	switch key {
	case 'p', ' ':
		v.Paused = !v.Paused
	case 's':
		v.Sort = (v.Sort + 1) % numWhats
	case 'S':
		v.Newest = !v.Newest
	case 'v':
		v.Only = (v.Only + 1) % numTables
	default:
		return false
	}
	return true
}

const keys = "q quit  p pause  s sort trees  S sort failures  v view  c clear"

// Span is a text that begins at column X of a line. Style has the numbers of the escape sequence
// that sets its style, "" for none.
type Span struct {
	X     int
	Text  string
	Style string
}

const (
	plain = ""
	bold  = "1"
	dim   = "2"
	red   = "31"
	alarm = "1;31"
)

// Lines returns the lines of a screen. They are at most height, and none is wider than width.
func (v *View) Lines(f *Frame, s *State, width, height int) (lines [][]Span) {
	row := func() *row { lines = append(lines, nil); return &row{width: width, line: &lines[len(lines)-1]} }
	v.title(row(), s)
	row().put(bold, fmt.Sprintf("%15s", "NOW/s"), fmt.Sprintf("%9s", "PEAK/s"), fmt.Sprintf("%11s", "TOTAL"), "  LAST MINUTE")
	for w, r := range f.Rates {
		row().rate([]string{"forks", "execs", "exits", "failed"}[w], &r, v.ASCII, What(w) == Failed)
	}
	v.loss(row(), s)
	if room := height - len(lines) - 1; room >= 4 {
		trees := room
		switch v.Only {
		case Failures:
			trees = 0
		case Both:
			trees = room - min(room/2, max(room/3, 2+len(f.Failures)))
		}
		if trees >= 3 {
			v.trees(f, row, trees)
		}
		for len(lines) < height-1-(room-trees) {
			row()
		}
		if room-trees >= 3 {
			v.failures(f, row, room-trees)
		}
		for len(lines) < height-1 {
			row()
		}
		row().cut(dim, keys)
	}
	return lines[:min(len(lines), height)]
}

func (v *View) title(r *row, s *State) {
	r.put(bold, "quark-mon top")
	if v.Paused {
		r.put(alarm, "  PAUSED")
	}
	r.put(plain, "  "+s.Wall.Format("15:04:05"), "  "+s.Backend)
	r.put(dim, fmt.Sprintf("  %d processes", s.Processes), fmt.Sprintf(", %d events held", s.Buffered))
}

// loss writes the losses of the source, by cause.
func (v *View) loss(r *row, s *State) {
	total, causes := uint64(0), []string(nil)
	for l, n := range s.Lost {
		if total += n; n > 0 {
			causes = append(causes, fmt.Sprintf("  %s %d", quark.Loss(l), n))
		}
	}
	style := plain
	if total > 0 || s.Bound {
		style = alarm
	}
	if s.Bound {
		causes = append(causes, "  and more whose number is not known")
	}
	r.put(style, fmt.Sprintf("%-7s%8d", "lost", s.LostNow), fmt.Sprintf("%20d", total))
	r.put(style, causes...)
}

func (v *View) trees(f *Frame, newRow func() *row, rows int) {
	newRow()
	r := newRow()
	for w, name := range []string{"FORK/s", "EXEC/s", "EXIT/s", "FAIL/s"} {
		if What(w) == v.Sort {
			name = "*" + name
		}
		r.put(bold, fmt.Sprintf("%7s", name))
	}
	title := "TREES, of the last 10 s"
	if f.Full {
		title += "; there are more"
	}
	r.put(bold, "     PID", " USER    ")
	r.cut(bold, " "+title)
	trees := slices.Clone(f.Trees)
	slices.SortStableFunc(trees, func(a, b Tree) int { return cmp.Compare(b.Counts[v.Sort], a.Counts[v.Sort]) })
	for _, t := range trees[:min(len(trees), rows-2)] {
		r := newRow()
		for w, n := range t.Counts {
			style := plain
			if What(w) == Failed && n > 0 {
				style = red
			}
			r.put(style, fmt.Sprintf("%7s", perSecond(n, f.Seconds)))
		}
		v.process(r, &quark.Event{Process: t.Leader})
		for _, name := range t.Ancestors {
			if r.width-r.x < 4 {
				break
			}
			r.put(dim, " < ")
			text, taken := line.Fit(name, r.width-r.x)
			r.fit(dim, text, taken)
		}
	}
}

// process writes the identity and arguments of a process.
func (v *View) process(r *row, ev *quark.Event) {
	r.put(plain, " ")
	v.cell(r, &v.cells.pid, ev, 7, -1)
	r.put(plain, " ")
	v.cell(r, &v.cells.user, ev, 8, 1)
	r.put(plain, " ")
	v.cell(r, &v.cells.args, ev, 0, 0)
}

// cell writes a column of an event, cut to a width, and right-aligned if side is negative. A width
// of 0 means the rest of the line.
func (v *View) cell(r *row, col *line.Column, ev *quark.Event, width, side int) {
	if side == 0 {
		width = r.width - r.x
	}
	if width > r.width-r.x {
		r.x = r.width
	}
	if r.x >= r.width {
		return
	}
	text, taken, style := v.line.Cell(col, ev, width)
	blanks := strings.Repeat(" ", width-taken)
	if side < 0 {
		r.put(plain, blanks)
	}
	if side == 0 {
		r.fit(style, text, taken)
		return
	}
	r.span(style, text, taken)
	if side > 0 {
		r.put(plain, blanks)
	}
}

func (v *View) failures(f *Frame, newRow func() *row, rows int) {
	newRow()
	heading := []string{"*COUNT", "AGO"}
	if v.Newest {
		heading = []string{"COUNT", "*AGO"}
	}
	r := newRow()
	r.put(bold, fmt.Sprintf("%9s", heading[0]), fmt.Sprintf("%7s", heading[1]), "  STATUS      ", "     PID", " USER    ")
	r.cut(bold, " FAILING COMMANDS, their last")
	list := slices.Clone(f.Failures)
	slices.SortFunc(list, func(a, b Failure) int {
		byCount, byTime := cmp.Compare(b.Count-b.Over, a.Count-a.Over), cmp.Compare(b.Last, a.Last)
		if v.Newest {
			return cmp.Or(byTime, byCount)
		}
		return cmp.Or(byCount, byTime)
	})
	for i := range list[:min(len(list), rows-2)] {
		x, r := &list[i], newRow()
		count := strconv.FormatUint(x.Count-x.Over, 10)
		if x.Over > 0 {
			count = ">=" + count
		}
		r.put(plain, fmt.Sprintf("%9s", count), fmt.Sprintf("%7s", ago(time.Duration(f.Now-min(f.Now, x.Last)))), "  ")
		ev := x.event()
		v.cell(r, &v.cells.status, ev, 12, 1)
		v.process(r, ev)
	}
}

// ago returns the time d in words, in whole seconds.
func ago(d time.Duration) string {
	if d < time.Minute {
		return strconv.Itoa(int(d/time.Second)) + "s"
	}
	return line.Short(d)
}

// perSecond returns a rate with at least two digits.
func perSecond(n uint32, seconds int) string {
	if rate := float64(n) / float64(max(seconds, 1)); rate < 9.95 && n > 0 {
		return strconv.FormatFloat(rate, 'f', 1, 64)
	}
	return strconv.Itoa(int(n) / max(seconds, 1))
}

// row is a line that is being written.
type row struct {
	x, width int
	line     *[]Span
}

// put writes ASCII texts. It skips the first text that does not fit, and all after it.
func (r *row) put(style string, texts ...string) {
	for _, text := range texts {
		if len(text) > r.width-r.x {
			r.x = r.width
			return
		}
		r.span(style, text, len(text))
	}
}

// cut writes as much of an ASCII text as fits.
func (r *row) cut(style, text string) { r.put(style, text[:max(0, min(len(text), r.width-r.x))]) }

// fit writes a fitted text into the rest of the line. If the text was cut, the line is full.
func (r *row) fit(style, text string, taken int) {
	r.span(style, text, taken)
	if strings.HasSuffix(text, ">") {
		r.x = r.width
	}
}

func (r *row) span(style, text string, taken int) {
	if text != "" && (style != plain || strings.TrimSpace(text) != "") {
		*r.line = append(*r.line, Span{r.x, text, style})
	}
	r.x += taken
}

// rate writes the occurrences in each second, with the newest on the right.
func (r *row) rate(name string, of *Rate, ascii, bad bool) {
	style := plain
	if now := of.Last[Minute-1]; bad && now > 0 {
		style = red
	}
	r.put(style, fmt.Sprintf("%-7s%8d", name, of.Last[Minute-1]), fmt.Sprintf("%9d", of.Peak), fmt.Sprintf("%11d", of.Total), "  ")
	levels := []rune(" ▁▂▃▄▅▆▇█")
	if ascii {
		levels = []rune(" .:-=+*%#")
	}
	last := of.Last[Minute-max(0, min(Minute, r.width-r.x)):]
	if len(last) == 0 {
		return
	}
	most, b := slices.Max(last), []rune(nil)
	for _, n := range last {
		// A value above 0 is always visible.
		level := 0
		if n > 0 {
			level = 1 + int(uint64(n)*uint64(len(levels)-2)/uint64(most))
		}
		b = append(b, levels[level])
	}
	r.span(style, string(b), len(b))
}
