package chart

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strings"
)

// The size of a drawing, and the margins around its plot.
const (
	Width  = 460
	Height = 220
	Left   = 48
	Bottom = 34
	Top    = 26
	Right  = 12
)

// Plot is an SVG drawing in progress; X and Y map data to its pixels.
type Plot struct {
	X, Y func(float64) float64

	text strings.Builder
}

// New begins a drawing.
func New(title string) *Plot {
	p := new(Plot)
	name := template.HTMLEscapeString(title)
	fmt.Fprintf(&p.text, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" font-family="sans-serif" font-size="12" role="img"><title>%s</title><rect width="100%%" height="100%%" %s/><text x="%d" y="14" font-weight="600" %s>%s</text>`,
		Width, Height, Width, name, paper.paint("fill"), Left, soft.paint("fill"), name)
	return p
}

// Scale returns a linear map from values between low and high to pixels between from and to.
func Scale(low, high, from, to float64) func(float64) float64 {
	if high <= low {
		high = low + 1
	}
	return func(v float64) float64 { return from + (v-low)/(high-low)*(to-from) }
}

// Text writes at a place; anchor is start, middle or end.
func (p *Plot) Text(x, y float64, anchor, s string) {
	fmt.Fprintf(&p.text, `<text x="%.1f" y="%.1f" text-anchor="%s" %s>%s</text>`, x, y, anchor, soft.paint("fill"), template.HTMLEscapeString(s))
}

func (p *Plot) line(x1, y1, x2, y2 float64, c Colour) {
	fmt.Fprintf(&p.text, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" %s/>`, x1, y1, x2, y2, c.paint("stroke"))
}

// PercentAxis sets the y axis to 0 to 100 % and draws its grid.
func (p *Plot) PercentAxis() {
	p.Y = Scale(0, 100, Height-Bottom, Top)
	for _, v := range []float64{0, 25, 50, 75, 100} {
		p.line(Left, p.Y(v), Width-Right, p.Y(v), grid)
		p.Text(Left-6, p.Y(v)+4, "end", fmt.Sprintf("%.0f %%", v))
	}
}

// Base draws the line at the bottom.
func (p *Plot) Base() { p.line(Left, Height-Bottom, Width-Right, Height-Bottom, axis) }

// Tick marks a value of the x axis.
func (p *Plot) Tick(v float64, label string) {
	p.line(p.X(v), Height-Bottom, p.X(v), Height-Bottom+4, axis)
	p.Text(p.X(v), Height-Bottom+16, "middle", label)
}

// Point is one of a curve. Low and High, if High is more than Low, are the interval of its Y.
type Point struct{ X, Y, Low, High float64 }

// Curve draws a line through points, with a dot at each and a bar for its interval.
func (p *Plot) Curve(points []Point, c Colour, width float64, dashed bool) {
	slices.SortFunc(points, func(a, b Point) int { return cmp.Compare(a.X, b.X) })
	fmt.Fprint(&p.text, `<polyline points="`)
	for _, pt := range points {
		fmt.Fprintf(&p.text, "%.1f,%.1f ", p.X(pt.X), p.Y(pt.Y))
	}
	dash := ""
	if dashed {
		dash = ` stroke-dasharray="8 5"`
	}
	fmt.Fprintf(&p.text, `" fill="none" stroke-width="%.0f"%s %s/>`, width, dash, c.paint("stroke"))
	for _, pt := range points {
		if pt.High > pt.Low {
			p.line(p.X(pt.X), p.Y(pt.Low), p.X(pt.X), p.Y(pt.High), c)
		}
		fmt.Fprintf(&p.text, `<circle cx="%.1f" cy="%.1f" r="%.0f" %s/>`, p.X(pt.X), p.Y(pt.Y), width/2+1, c.paint("fill"))
	}
}

// Bar draws a rectangle between two pixels of the x axis, from the bottom to a value, with a text
// that is shown when it is pointed at.
func (p *Plot) Bar(x, width, v float64, c Colour, title string) {
	fmt.Fprintf(&p.text, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" %s><title>%s</title></rect>`,
		x, p.Y(v), width, p.Y(0)-p.Y(v), c.paint("fill"), template.HTMLEscapeString(title))
}

// Row draws a bar from the left, the i-th of n, to the X of a point, with its interval, a name
// before and a text after it.
func (p *Plot) Row(i, n int, name string, pt Point, text string) {
	height := float64(Height-Top-8) / float64(n)
	y := Top + float64(i)*height
	middle := y + height/2
	fmt.Fprintf(&p.text, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" %s/>`, p.X(0), y+1, max(p.X(pt.X)-p.X(0), 0.5), height-2, Of(name).paint("fill"))
	if pt.High > pt.Low {
		p.line(p.X(pt.Low), middle, p.X(pt.High), middle, soft)
	}
	p.Text(p.X(0)-5, middle+4, "end", name)
	p.Text(max(p.X(pt.X), p.X(pt.High))+5, middle+4, "start", text)
}

// LegendBelow writes names and their colours below the x axis, smaller if there are many.
func (p *Plot) LegendBelow(names []string) {
	const margin = 4.0
	width := func(n string) float64 { return 5*float64(len(n)) + 16 }
	all := 0.0
	for _, n := range names {
		all += width(n)
	}
	size, x := min(1, (Width-2*margin)/max(all, 1)), margin
	for _, n := range names {
		fmt.Fprintf(&p.text, `<rect x="%.1f" y="%d" width="%.1f" height="8" %s/>`, x, Height-11, 8*size, Of(n).paint("fill"))
		fmt.Fprintf(&p.text, `<text x="%.1f" y="%d" font-size="%.1f" %s>%s</text>`, x+10*size, Height-4, 9*size, soft.paint("fill"), template.HTMLEscapeString(n))
		x += size * width(n)
	}
}

// End returns the drawing.
func (p *Plot) End() template.HTML { return template.HTML(p.text.String() + "</svg>") }
