package league

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
	"time"

	"github.com/quark-linux/quark/fidelity/bench"
	"github.com/quark-linux/quark/fidelity/chart"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("league").Parse(pageText))

// Page writes runs as one self-contained HTML page: for each a drawing of what was seen by rate,
// one of the fields that were known by lifetime, one of the cost, and all tables.
func Page(out io.Writer, runs []*Run) error {
	p := page{Style: chart.Style()}
	for _, r := range runs {
		p.Runs = append(p.Runs, section{r, r.charts()})
	}
	return pageTemplate.Execute(out, p)
}

type page struct {
	Style template.CSS
	Runs  []section
}

type section struct {
	*Run
	Charts template.HTML
}

// Experiment returns the results of the experiment with the proc connector's filter as text.
func (s section) Experiment() string {
	var b strings.Builder
	if len(s.Filter) > 0 {
		bench.PrintExperiment(&b, s.FilterOf, s.Filter)
	}
	return b.String()
}

// ExperimentRows returns the same as rows of a table, the first of which is its head.
func (s section) ExperimentRows() (rows [][]string) {
	for text := range strings.Lines(s.Experiment()) {
		if text = strings.TrimSpace(text); text != "" {
			rows = append(rows, strings.Split(text, "\t"))
		}
	}
	return rows
}

// charts draws a run: quark's backends and the monitors of others apart, as all together are too
// many for one drawing.
func (r *Run) charts() (out template.HTML) {
	for _, own := range []bool{true, false} {
		var names []string
		for _, p := range r.Participants {
			if p.Own == own && len(r.rows(p.Name, func(*Row) bool { return true })) > 0 {
				names = append(names, p.Name)
			}
		}
		if len(names) == 0 {
			continue
		}
		out += r.seenChart(names) + r.lifetimeChart(names)
	}
	return out + r.costChart("CPU for 1,000 lives, in ms", r.cost(), func(w *Row) float64 { return perLife(w, w.CPU) * 1e6 }) +
		r.costChart("Workload at full speed, times as long", r.full(), func(w *Row) float64 { return w.Alone / max(w.Offered, 1e-9) })
}

// seenChart draws the share of events that was seen, by the rate that was offered.
func (r *Run) seenChart(names []string) template.HTML {
	p := chart.New("Seen, in percent, by lives a second")
	p.PercentAxis()
	var curves [][]chart.Point
	low, high := math.Inf(1), 0.0
	for _, name := range names {
		var points []chart.Point
		for _, s := range append(r.shapes(Rate), r.full()) {
			rows := r.rows(name, s.is)
			if len(rows) == 0 {
				continue
			}
			offered, e := estimate(rows, func(w *Row) float64 { return w.Offered }).Median, estimate(rows, seen)
			if offered <= 0 {
				continue
			}
			low, high = min(low, offered), max(high, offered)
			points = append(points, chart.Point{X: math.Log10(offered), Y: e.Median, Low: e.Low, High: e.High})
		}
		curves = append(curves, points)
	}
	if high == 0 {
		return ""
	}
	p.X = chart.Scale(math.Log10(low)-0.05, math.Log10(high)+0.05, chart.Left, chart.Width-chart.Right-8)
	for tick := math.Ceil(math.Log10(low) - 0.05); tick <= math.Log10(high)+0.05; tick++ {
		p.Tick(tick, fmt.Sprintf("%.0f", math.Pow(10, tick)))
	}
	return curved(p, names, curves)
}

// lifetimeChart draws the share of fields that were known, by the lifetime of a process.
func (r *Run) lifetimeChart(names []string) template.HTML {
	p := chart.New("Fields known, in percent, by lifetime")
	p.PercentAxis()
	p.X = chart.Scale(-3.05, 0.05, chart.Left, chart.Width-chart.Right-8)
	var curves [][]chart.Point
	some := false
	for _, name := range names {
		var points []chart.Point
		for _, s := range r.shapes(Lifetime) {
			if rows := r.rows(name, s.is); len(rows) > 0 {
				e := estimate(rows, known)
				points = append(points, chart.Point{X: math.Log10(s.lifetime.Seconds()), Y: e.Median, Low: e.Low, High: e.High})
				some = true
			}
		}
		curves = append(curves, points)
	}
	if !some {
		return ""
	}
	for d := time.Millisecond; d <= time.Second; d *= 10 {
		p.Tick(math.Log10(d.Seconds()), d.String())
	}
	return curved(p, names, curves)
}

func curved(p *chart.Plot, names []string, curves [][]chart.Point) template.HTML {
	for i, name := range names {
		// Later curves are thinner, so that one drawn over another hides nothing.
		p.Curve(curves[i], chart.Of(name), float64(len(names)-i)+1, false)
	}
	p.LegendBelow(names)
	return p.End()
}

// costChart draws a figure of all participants as bars.
func (r *Run) costChart(title string, s shape, figure func(*Row) float64) template.HTML {
	most := 0.0
	var names []string
	var values []Estimate
	for _, one := range r.Participants {
		if rows := r.rows(one.Name, s.is); len(rows) > 0 {
			e := estimate(rows, figure)
			names, values = append(names, one.Name), append(values, e)
			most = max(most, e.High)
		}
	}
	if len(names) == 0 || most <= 0 {
		return ""
	}
	p := chart.New(title)
	p.X = chart.Scale(0, most, chart.Left+40, chart.Width-chart.Right-60)
	for i, e := range values {
		p.Row(i, len(values), names[i], chart.Point{X: e.Median, Low: e.Low, High: e.High}, number(e.Median))
	}
	return p.End()
}
