// Package chart draws bars as SVG for HTML pages.
//
// The colours are variables of the page's style sheet. A drawing outside of a page uses the light
// colours.
package chart

import (
	"fmt"
	"html/template"
	"strings"
)

// The size of a drawing, and the margins around its plot.
const (
	width  = 460
	height = 220
	left   = 48
	top    = 26
	right  = 12
)

// Colour is a variable of the page's style sheet, with its value on a light page.
type Colour struct{ variable, light string }

// The colours of bars, and of the other parts of a drawing.
var (
	Blue   = Colour{"blue", "#0b66b2"}
	Orange = Colour{"orange", "#c2570c"}

	paper = Colour{"paper", "#fff"}
	soft  = Colour{"soft", "#444c56"}
)

// paint returns the attributes that set a property, "fill" or "stroke", to a colour.
func (c Colour) paint(property string) string {
	return fmt.Sprintf(`%s="%s" style="%s:var(--%s,%s)"`, property, c.light, property, c.variable, c.light)
}

// Bar is a bar of a drawing.
type Bar struct {
	Name      string
	Value     float64
	Low, High float64 // interval of the value, if High is more than Low
	Text      string  // the value as text
	Colour    Colour
}

// Bars draws horizontal bars, one below the other.
func Bars(title string, bars []Bar) template.HTML {
	most := 0.0
	for _, b := range bars {
		most = max(most, b.Value, b.High)
	}
	if most <= 0 {
		return ""
	}
	d := begin(title)
	const zero = left + 40
	x := func(v float64) float64 { return zero + v/most*(width-right-60-zero) }
	each := float64(height-top-8) / float64(len(bars))
	for i, b := range bars {
		y := top + float64(i)*each
		middle := y + each/2
		d.rect(zero, y+1, max(x(b.Value)-zero, 2), each-2, b.Colour, b.Name+": "+b.Text)
		if b.High > b.Low {
			d.line(x(b.Low), middle, x(b.High), middle, soft)
		}
		d.label(zero-5, middle+4, "end", b.Name)
		d.label(x(max(b.Value, b.High))+5, middle+4, "start", b.Text)
	}
	return d.end()
}

// drawing is an SVG drawing in progress.
type drawing struct{ strings.Builder }

func begin(title string) *drawing {
	d := new(drawing)
	title = template.HTMLEscapeString(title)
	fmt.Fprintf(d, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" font-family="sans-serif" font-size="12" role="img"><title>%s</title><rect width="100%%" height="100%%" %s/><text x="%d" y="14" font-weight="600" %s>%s</text>`,
		width, height, width, title, paper.paint("fill"), left, soft.paint("fill"), title)
	return d
}

// label writes a text at a place; anchor is start, middle or end.
func (d *drawing) label(x, y float64, anchor, text string) {
	fmt.Fprintf(d, `<text x="%.1f" y="%.1f" text-anchor="%s" %s>%s</text>`, x, y, anchor, soft.paint("fill"), template.HTMLEscapeString(text))
}

func (d *drawing) line(x1, y1, x2, y2 float64, c Colour) {
	fmt.Fprintf(d, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" %s/>`, x1, y1, x2, y2, c.paint("stroke"))
}

// rect draws a rectangle with a tooltip.
func (d *drawing) rect(x, y, w, h float64, c Colour, title string) {
	fmt.Fprintf(d, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" %s><title>%s</title></rect>`,
		x, y, w, h, c.paint("fill"), template.HTMLEscapeString(title))
}

func (d *drawing) end() template.HTML { return template.HTML(d.String() + "</svg>") }
