package fidelity

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/chart"
	"github.com/quark-linux/quark/fidelity/score"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// Page writes reports as one self-contained HTML page: a heat map of fields and one of scenarios,
// with a column for each backend on each kernel, and charts of delays.
func Page(out io.Writer, list []*Report) error {
	p := page{Style: chart.Style(), Reports: list}
	for _, r := range list {
		for _, b := range r.columns() {
			p.Columns = append(p.Columns, column{r, b})
		}
	}
	p.fields()
	p.scenarios()
	p.Delays = delayChart(p.Columns)
	return pageTemplate.Execute(out, p)
}

type page struct {
	Style     template.CSS
	Reports   []*Report
	Columns   []column
	Fields    []row
	Scenarios []row
	Delays    template.HTML
}

// column is one backend on one kernel.
type column struct {
	Report  *Report
	Backend *Backend
}

// Short returns the kernel's release without the distributor's suffix.
func (c column) Short() string {
	short, _, _ := strings.Cut(c.Report.Kernel, "-")
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
	return template.CSS(fmt.Sprintf("--shade:%d", c.Shade))
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

// delayChart draws a histogram of delivery delays for each backend, in classes of powers of two.
func delayChart(columns []column) (out template.HTML) {
	for _, c := range columns {
		d := c.Backend.Delay
		if d.N == 0 {
			continue
		}
		p := chart.New(fmt.Sprintf("%s, %s: median %s, 99 %% within %s", c.Backend.Name, c.Short(), ms(d.P50), ms(d.P99)))
		p.PercentAxis()
		// The first class holds delays below 64 us, the last those of 8 s and more.
		const low, high = 16, 34
		p.X = chart.Scale(low, high, chart.Left+4, chart.Width-chart.Right)
		width := p.X(1) - p.X(0)
		var classes [high - low]int
		for bits, n := range d.Buckets {
			classes[min(max(bits, low), high-1)-low] += n
		}
		for i, n := range classes {
			v := 100 * float64(n) / float64(d.N)
			x := p.X(float64(low + i))
			p.Bar(x, width-2, v, chart.Of(c.Backend.Name), fmt.Sprintf("below %s: %.2f %%", duration(low+i), v))
			if i%3 == 0 {
				p.Text(x+width, p.Y(0)+16, "middle", duration(low+i))
			}
		}
		p.Base()
		out += p.End()
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
