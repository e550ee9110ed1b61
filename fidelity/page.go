package fidelity

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/score"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// Page writes reports as one self-contained HTML page: a heat map of fields and one of scenarios,
// with a column for each backend on each kernel, and charts of storms and delays.
func Page(out io.Writer, list []*Report) error {
	p := page{Reports: list}
	for _, r := range list {
		for _, b := range r.columns() {
			p.Columns = append(p.Columns, column{r, b})
		}
	}
	p.fields()
	p.scenarios()
	p.Storms = stormChart(list)
	p.Delays = delayChart(p.Columns)
	return pageTemplate.Execute(out, p)
}

type page struct {
	Reports   []*Report
	Columns   []column
	Fields    []row
	Scenarios []row
	Storms    template.HTML
	Delays    template.HTML
}

// column is one backend on one kernel.
type column struct {
	Report  *Report
	Backend *Backend
}

// Short returns the kernel's release without the distributor's suffix.
func (c column) Short() string { return shortRelease(c.Report.Kernel) }

func shortRelease(kernel string) string {
	short, _, _ := strings.Cut(kernel, "-")
	short, _, _ = strings.Cut(short, "+")
	return short
}

type row struct {
	Name  string
	Cells []cell
}

type cell struct {
	Text, Title string
	Class       string // bad, odd or empty
	Shade       int    // percentage of right values
}

func (c cell) Style() template.CSS {
	if c.Class != "" {
		return ""
	}
	// From the page's white to a green on which black text is still readable.
	return template.CSS(fmt.Sprintf("background:hsl(150 45%% %d%%)", 97-c.Shade*35/100))
}

func verdictCell(v score.Verdicts) cell {
	n := v.Total()
	if n == 0 {
		return cell{Text: "-", Title: "no verdict"}
	}
	good := v.Right + v.Carried + v.Truncated
	c := cell{Shade: 100 * good / n, Text: share(good, n), Title: percent(v)}
	switch {
	case v.Wrong > 0:
		c.Class, c.Text = "bad", share(v.Wrong, n)+" wrong"
	case v.Stale > 0:
		c.Class, c.Text = "bad", share(v.Stale, n)+" stale"
	case v.Unexplained > 0:
		c.Class, c.Text = "odd", share(v.Unexplained, n)+" unexplained"
	}
	return c
}

func (p *page) fields() {
	add := func(name string, of func(*Backend) cell) {
		r := row{Name: name}
		for _, c := range p.Columns {
			r.Cells = append(r.Cells, of(c.Backend))
		}
		p.Fields = append(p.Fields, r)
	}
	add("events seen", func(b *Backend) cell { return seenCell(&b.Total) })
	add("stamp", func(b *Backend) cell { return verdictCell(b.Total.Stamp) })
	for f := range engine.Field(engine.NumFields) {
		add(f.String(), func(b *Backend) cell { return verdictCell(b.Total.Fields[f]) })
	}
}

func seenCell(s *score.Score) cell {
	if s.Truth == 0 {
		return cell{Text: "-", Title: "no events"}
	}
	c := cell{Text: share(s.Seen, s.Truth), Shade: 100 * s.Seen / s.Truth}
	c.Title = fmt.Sprintf("%d of %d events, %d phantoms, %d duplicates, %d out of order, %d not joined",
		s.Seen, s.Truth, s.Phantoms, s.Duplicates, s.Inversions, s.Unjoined)
	if s.Seen < s.Truth || s.Phantoms+s.Duplicates+s.Inversions+s.Unjoined > 0 {
		c.Class = "bad"
	}
	return c
}

// scenarios adds a row for each scenario of any report.
func (p *page) scenarios() {
	at := make(map[string]int)
	for _, c := range p.Columns {
		for _, s := range c.Backend.Scenarios {
			if _, ok := at[s.Scenario]; !ok {
				at[s.Scenario] = len(p.Scenarios)
				p.Scenarios = append(p.Scenarios, row{Name: s.Scenario})
			}
		}
	}
	for name, i := range at {
		for _, c := range p.Columns {
			p.Scenarios[i].Cells = append(p.Scenarios[i].Cells, scenarioCell(c.Backend.scenario(name)))
		}
	}
}

func scenarioCell(s *Score) cell {
	switch {
	case s == nil:
		return cell{Text: "-", Title: "not run"}
	case s.Skip != "":
		return cell{Text: "skipped", Title: s.Skip}
	}
	all := s.All()
	all.Add(s.Stamp)
	c := verdictCell(all)
	if events := seenCell(&s.Score); events.Class != "" {
		c.Class, c.Text = "bad", events.Text+" seen"
		if s.Seen >= s.Truth {
			c.Text = "see list"
		}
		c.Title = events.Title + "; " + c.Title
	}
	return c
}

// Rows returns the lines of the backend's capability table.
func (c column) Rows() (rows []string) {
	for f := range engine.Field(engine.NumFields) {
		k := c.Backend.Fields[f.String()]
		rows = append(rows, fmt.Sprintf("%s: %s, %s (%s)", f, k.Origin, k.Via, k.At))
	}
	return rows
}

// colours maps each backend to its colour in all charts. They also differ for readers who are
// red-green colour-blind.
var colours = map[string]string{"ebpf": "#0b66b2", "kprobe": "#c2570c", "cnproc": "#5d7a1f", "tracepoint": "#8a4fb0",
	"taskstats": "#b08a00", "procpoll": "#6b7280", "audit": "#b0306a"}

// colour returns the colour of a backend. Monitors of others have one together.
func colour(name string) string { return cmp.Or(colours[name], "#777777") }

const (
	chartWidth  = 460
	chartHeight = 220
	left        = 48 // left, bottom, top and right are the margins around the plot
	bottom      = 34
	top         = 26
	right       = 12
)

// plot is an SVG drawing in progress; x and y map data to its pixels.
type plot struct {
	strings.Builder
	x, y func(float64) float64
}

func newPlot(title string) *plot {
	p := new(plot)
	// The white background keeps the chart readable on a dark page.
	fmt.Fprintf(p, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" font-family="sans-serif" font-size="12" role="img"><title>%s</title><rect width="100%%" height="100%%" fill="#fff"/><text x="%d" y="14" font-weight="600">%s</text>`,
		chartWidth, chartHeight, chartWidth, template.HTMLEscapeString(title), left, template.HTMLEscapeString(title))
	return p
}

// scale returns a linear map from values between low and high to pixels between from and to.
func scale(low, high, from, to float64) func(float64) float64 {
	if high <= low {
		high = low + 1
	}
	return func(v float64) float64 { return from + (v-low)/(high-low)*(to-from) }
}

func (p *plot) text(x, y float64, anchor, s string) {
	fmt.Fprintf(p, `<text x="%.1f" y="%.1f" text-anchor="%s" fill="#444c56">%s</text>`, x, y, anchor, template.HTMLEscapeString(s))
}

func (p *plot) line(x1, y1, x2, y2 float64, style string) {
	fmt.Fprintf(p, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" %s/>`, x1, y1, x2, y2, style)
}

const (
	axis = `stroke="#98a2ad"`
	grid = `stroke="#e3e7eb"`
)

// percentAxis sets the y axis to 0 to 100 % and draws its grid.
func (p *plot) percentAxis() {
	p.y = scale(0, 100, chartHeight-bottom, top)
	for _, v := range []float64{0, 25, 50, 75, 100} {
		p.line(left, p.y(v), chartWidth-right, p.y(v), grid)
		p.text(left-6, p.y(v)+4, "end", fmt.Sprintf("%.0f %%", v))
	}
}

type point struct{ x, y float64 }

func (p *plot) curve(points []point, stroke string, width float64, more string) {
	slices.SortFunc(points, func(a, b point) int { return cmp.Compare(a.x, b.x) })
	fmt.Fprint(p, `<polyline points="`)
	for _, pt := range points {
		fmt.Fprintf(p, "%.1f,%.1f ", p.x(pt.x), p.y(pt.y))
	}
	fmt.Fprintf(p, `" fill="none" stroke="%s" stroke-width="%.0f" %s/>`, stroke, width, more)
	for _, pt := range points {
		fmt.Fprintf(p, `<circle cx="%.1f" cy="%.1f" r="%.0f" fill="%s"/>`, p.x(pt.x), p.y(pt.y), width/2+1, stroke)
	}
}

// legend writes the names and colours of the backends at the upper edge.
func (p *plot) legend(names []string) {
	x := float64(chartWidth - right)
	for _, n := range slices.Backward(names) {
		p.text(x, 14, "end", n)
		x -= float64(8*len(n) + 4)
		fmt.Fprintf(p, `<rect x="%.1f" y="5" width="10" height="10" fill="%s"/>`, x-8, colour(n))
		x -= 18
	}
}

func (p *plot) end() template.HTML {
	p.WriteString("</svg>")
	return template.HTML(p.String())
}

// stormChart draws a chart for each report with storms: the shares of events seen and of fields
// known, by offered rate.
func stormChart(list []*Report) (out template.HTML) {
	for _, r := range list {
		if len(r.Storms) == 0 {
			continue
		}
		most := 0.0
		var names []string
		for _, s := range r.Storms {
			most = max(most, s.Offered)
			if !slices.Contains(names, s.Backend) {
				names = append(names, s.Backend)
			}
		}
		// The full release would run into the legend.
		p := newPlot("Linux " + shortRelease(r.Kernel))
		p.percentAxis()
		p.x = scale(0, most, left, chartWidth-right-8)
		step := math.Pow(10, math.Floor(math.Log10(max(most, 1))))
		if most/step < 3 {
			step /= 2
		}
		for v := 0.0; v <= most; v += step {
			p.line(p.x(v), p.y(0), p.x(v), p.y(0)+4, axis)
			p.text(p.x(v), p.y(0)+16, "middle", fmt.Sprintf("%.0f", v))
		}
		p.text(chartWidth-right, chartHeight-4, "end", "processes a second")
		for i, n := range names {
			var seen, known []point
			for _, s := range r.Storms {
				if s.Backend == n {
					seen = append(seen, point{s.Offered, 100 * float64(s.Seen) / float64(max(1, s.Truth))})
					known = append(known, point{s.Offered, 100 * s.Known})
				}
			}
			// Later curves are thinner, so that one drawn over another hides nothing.
			width := float64(2 * (len(names) - i))
			p.curve(known, colour(n), width, `stroke-dasharray="8 5"`)
			p.curve(seen, colour(n), width, "")
		}
		p.legend(names)
		out += p.end()
	}
	return out
}

// delayChart draws a histogram of delivery delays for each backend, in classes of powers of two.
func delayChart(columns []column) (out template.HTML) {
	for _, c := range columns {
		d := c.Backend.Delay
		if d.N == 0 {
			continue
		}
		p := newPlot(fmt.Sprintf("%s, %s: median %s, 99 %% within %s", c.Backend.Name, c.Short(), ms(d.P50), ms(d.P99)))
		p.percentAxis()
		// The first class holds delays below 64 us, the last those of 8 s and more.
		const low, high = 16, 34
		p.x = scale(low, high, left+4, chartWidth-right)
		width := p.x(1) - p.x(0)
		var classes [high - low]int
		for bits, n := range d.Buckets {
			classes[min(max(bits, low), high-1)-low] += n
		}
		for i, n := range classes {
			v := 100 * float64(n) / float64(d.N)
			x := p.x(float64(low + i))
			fmt.Fprintf(p, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"><title>below %s: %.2f %%</title></rect>`,
				x, p.y(v), width-2, p.y(0)-p.y(v), colour(c.Backend.Name), duration(low+i), v)
			if i%3 == 0 {
				p.text(x+width, p.y(0)+16, "middle", duration(low+i))
			}
		}
		p.line(left, p.y(0), chartWidth-right, p.y(0), axis)
		out += p.end()
	}
	return out
}

// duration formats 2^bits nanoseconds with a short unit.
func duration(bits int) string {
	ns := math.Pow(2, float64(bits))
	switch {
	case ns >= 1e9:
		return fmt.Sprintf("%.0f s", ns/1e9)
	case ns >= 1e6:
		return fmt.Sprintf("%.0f ms", ns/1e6)
	}
	return fmt.Sprintf("%.0f us", ns/1e3)
}

// Drawing writes the storms of a report as SVG.
func Drawing(out io.Writer, r *Report) error {
	if len(r.Storms) == 0 {
		return errors.New("the report has no storms to draw: quark-fidelity run -x measures them")
	}
	_, err := io.WriteString(out, string(stormChart([]*Report{r}))+"\n")
	return err
}
