package line

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/quark-linux/quark"
)

// Options set the form of lines. The zero value has no column.
type Options struct {
	Columns []Column
	Colour  bool
	Clock   *quark.Clock
	Zone    *time.Location // time zone of the time of day

	// Depth is the indentation of the last column, in steps of two blanks.
	Depth int

	// User and Group return the name for an id of a process, or "". If they are nil, numbers
	// are printed.
	User, Group func(p *quark.Process, id uint32) string
}

// Printer prints events. Columns grow when a text needs it, and shrink at the next heading.
type Printer struct {
	Options
	width, height int
	widths, seen  []int // widths of columns; largest widths on this page
	rows          int   // lines on this page
	cell          cell
	used          int // columns used in this line
}

// New returns a printer with unlimited width and one heading.
func New(o Options) *Printer {
	return &Printer{Options: o, widths: make([]int, len(o.Columns)), seen: make([]int, len(o.Columns))}
}

// SetSize sets the size of the terminal. Lines are cut to its width, and columns to their widths.
// Each page has a heading, unless a page has less than 5 lines. A size of 0 is unlimited.
func (p *Printer) SetSize(width, height int) { p.width, p.height = width, height }

// Styles: the parameters of their escape sequences.
const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	yellow = "33"
)

// Append appends the event to b, after the heading if a page begins.
func (p *Printer) Append(b []byte, ev *quark.Event) []byte {
	b = p.countLines(b, 1)
	switch {
	case ev.Events.Has(quark.EventGap):
		return p.appendLine(b, bold+";"+red, func(c *cell) { p.writeGap(c, ev) })
	case ev.Process == nil:
		return b
	case ev.Events.Has(quark.EventGone):
		return p.appendLine(b, bold+";"+yellow, func(c *cell) { p.writeGone(c, ev) })
	}
	style := ""
	if ev.Events == 0 {
		style = dim
	}
	return p.row(b, style, p.Depth, func(c *cell, col *Column) {
		if ev.Unsure && p.used == 0 {
			c.put("~", 1)
		}
		col.fill(c, p, ev)
	})
}

// Ancestors appends a line with the current ancestors of a process, parent first. whole reports
// whether the list is complete. Then its last element is an ancestor of all processes, and omitted
// unless it is the only one.
func (p *Printer) Ancestors(b []byte, ancestors []*quark.Process, whole bool) []byte {
	if n := len(ancestors); whole && n > 1 {
		ancestors = ancestors[:n-1]
	}
	return p.appendLine(p.countLines(b, 2), bold, func(c *cell) {
		c.ascii("--")
		for i, a := range ancestors {
			if i > 0 {
				c.ascii(" <")
			}
			if c.put(" ", 1); c.full {
				return
			}
			if c.mark(a, 1<<quark.FieldComm) {
				c.quote(a.Comm)
			}
			c.put(" ", 1)
			c.uint(uint64(a.PID))
		}
		if !whole {
			c.ascii(" < ?")
		}
	})
}

// PageEnds reports whether the next line begins a page.
func (p *Printer) PageEnds() bool { return !p.fits(1) }

// fits reports whether this page has space for more lines.
func (p *Printer) fits(lines int) bool {
	return p.rows > 0 && (p.height < 5 || p.rows+lines < p.height)
}

// countLines counts a line. If the number of lines does not fit on the countLines, countLines first
// appends a heading.
func (p *Printer) countLines(b []byte, lines int) []byte {
	if !p.fits(lines) {
		b = p.heading(b)
	}
	p.rows++
	return b
}

func (p *Printer) heading(b []byte) []byte {
	p.rows = 1
	for i, col := range p.Columns {
		p.widths[i], p.seen[i] = max(p.seen[i], col.min), 0
	}
	return p.row(b, bold, 0, func(c *cell, col *Column) { c.ascii(strings.ToUpper(col.Name)) })
}

// room returns the number of remaining columns.
func (p *Printer) room() int {
	if p.width <= 0 {
		return math.MaxInt
	}
	return p.width - p.used
}

// row appends a line with all columns. The last column gets the rest of the width, and is indented
// by two blanks for each step of depth.
func (p *Printer) row(b []byte, style string, depth int, fill func(*cell, *Column)) []byte {
	p.used = 0
	for i := range p.Columns {
		col, c, last := &p.Columns[i], &p.cell, i == len(p.Columns)-1
		most := p.room()
		if most <= 0 {
			break
		}
		if !last && p.width > 0 {
			most = min(most, col.max)
		}
		c.reset(most)
		if last {
			c.ascii(strings.Repeat("  ", depth))
		}
		fill(c, col)
		if c.style == "" {
			c.style = style
		}
		// A text longer than the maximum does not widen the column.
		p.seen[i] = max(p.seen[i], min(c.w, col.max))
		p.widths[i] = max(p.widths[i], p.seen[i])
		blanks := min(p.widths[i]-c.w, p.room()-c.w)
		if col.right {
			b = p.blanks(b, blanks)
		}
		b = p.styled(b)
		if !last {
			if !col.right {
				b = p.blanks(b, blanks)
			}
			b = p.blanks(b, min(1, p.room()))
		}
	}
	return append(b, '\n')
}

// appendLine appends a line without columns.
func (p *Printer) appendLine(b []byte, style string, text func(*cell)) []byte {
	p.used = 0
	p.cell.reset(p.room())
	text(&p.cell)
	p.cell.style = style
	return append(p.styled(b), '\n')
}

func (p *Printer) blanks(b []byte, n int) []byte {
	for range n {
		b = append(b, ' ')
		p.used++
	}
	return b
}

// styled appends the cell.
func (p *Printer) styled(b []byte) []byte {
	c := &p.cell
	p.used += c.w
	if !p.Colour || c.style == "" {
		return append(b, c.b...)
	}
	b = append(append(append(b, "\x1b["...), c.style...), 'm')
	return append(append(b, c.b...), "\x1b[m"...)
}

const clock = "15:04:05.000"

func (p *Printer) time(c *cell, layout string, t time.Time) {
	var b [32]byte
	c.ascii(string(t.In(p.Zone).AppendFormat(b[:0], layout)))
}

// id writes the name of an id, or else the id.
func (c *cell) id(name func(*quark.Process, uint32) string, p *quark.Process, id uint32) {
	if name != nil {
		if text := name(p, id); text != "" {
			c.quote(text)
			return
		}
	}
	c.uint(uint64(id))
}

// writeGap writes the number of lost events and the cause.
func (p *Printer) writeGap(c *cell, ev *quark.Event) {
	g := &ev.Gap
	p.time(c, clock, ev.Wall)
	where := "all CPUs"
	if g.CPU != quark.AllCPUs {
		where = "CPU " + strconv.FormatUint(uint64(g.CPU), 10)
	}
	c.ascii(fmt.Sprintf(" *** GAP: at least %d lost (%s), %s, until ", max(g.Count, 1), g.Cause, where))
	p.time(c, clock, p.Clock.At(g.To))
	c.ascii(" ***")
}

// writeGone writes that a process no longer exists.
func (p *Printer) writeGone(c *cell, ev *quark.Event) {
	if ev.Unsure {
		c.put("~", 1)
	}
	p.time(c, clock, ev.Wall)
	c.ascii(fmt.Sprintf(" *** GONE: pid %d, its exit was not reported: ", ev.Process.PID))
	showArgs(c, p, ev)
}

// Cell returns a column of an event, cut to a width, its number of columns on the terminal, and the
// parameters of the escape sequence for its style.
func (p *Printer) Cell(col *Column, ev *quark.Event, width int) (text string, taken int, style string) {
	p.cell.reset(width)
	col.fill(&p.cell, p, ev)
	return string(p.cell.b), p.cell.w, p.cell.style
}
