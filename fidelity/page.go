package fidelity

import (
	"fmt"
	"io"
	"strings"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/score"
	"github.com/quark-linux/quark/internal/report"
)

// Page writes reports as one self-contained HTML page: heat maps of fields and scenarios, with a
// column for each backend on each kernel.
func Page(out io.Writer, list []*Report) error {
	p := report.Page{
		Title: "quark: what each backend sees, against ground truth",
		Notes: []string{"Each process of a scenario recorded its own actions. All backends of a kernel observed the same run. " +
			"A cell is the share of values that were known and right; the rest up to 100 % was unknown. Point at a cell for more."},
		Legend: []report.Cell{
			heat("all right", 100), heat("half is unknown, as the capability table says", 50),
			{Text: "unknown without a reason", Class: report.Odd}, {Text: "wrong, lost without a count, or never happened", Class: report.Bad},
		},
	}
	var columns []column
	for _, r := range list {
		note := fmt.Sprintf("Linux %s, %s, %d CPUs, %s UTC", r.Kernel, r.Arch, r.CPUs, r.Time.Format("2006-01-02 15:04"))
		if r.Version != "" {
			note += ", quark " + r.Version
		}
		for _, a := range r.Absent {
			note += fmt.Sprintf("; not run: %s: %s", a.Backend, a.Reason)
		}
		p.Notes = append(p.Notes, note)
		for _, b := range r.columns() {
			columns = append(columns, column{r, b})
		}
	}
	p.Sections = []report.Section{
		{Table: fieldTable(columns)},
		{Table: scenarioTable(columns)},
	}
	for _, row := range p.Sections[len(p.Sections)-1].Table.Rows {
		p.Jump = append(p.Jump, row[0].ID)
	}
	for _, r := range list {
		p.Sections = append(p.Sections, report.Section{Title: "Defects on " + r.Kernel, Lines: r.Defects()})
	}
	for _, c := range columns {
		p.Sections = append(p.Sections, report.Section{Title: "Capability table of " + c.name(), Lines: c.capabilities(), Folded: true})
	}
	return p.Write(out)
}

type column struct {
	report  *Report
	backend *Backend
}

// name returns the kernel's release, without the distributor's suffix, and the name of the backend.
func (c column) name() string {
	short, _, _ := strings.Cut(c.report.Kernel, "-")
	short, _, _ = strings.Cut(short, "+")
	return short + " " + c.backend.Name
}

func head(columns []column) []string {
	list := []string{""}
	for _, c := range columns {
		list = append(list, strings.Replace(c.name(), " ", "\n", 1))
	}
	return list
}

func heat(text string, shade int) report.Cell {
	return report.Cell{Text: text, Class: report.Heat, Shade: shade}
}

func verdictCell(v score.Counts) report.Cell {
	n := v.Total()
	if n == 0 {
		return report.Cell{Text: "-", Title: "no verdict"}
	}
	good := v.Right + v.Cached + v.Truncated
	c := heat(share(good, n), 100*good/n)
	c.Title = percent(v)
	switch {
	case v.Wrong > 0:
		c.Class, c.Text = report.Bad, share(v.Wrong, n)+" wrong"
	case v.Stale > 0:
		c.Class, c.Text = report.Bad, share(v.Stale, n)+" outdated"
	case v.Unexplained > 0:
		c.Class, c.Text = report.Odd, share(v.Unexplained, n)+" unknown without a reason"
	}
	return c
}

func fieldTable(columns []column) *report.Table {
	t := &report.Table{Title: "Fields, outside storms", Head: head(columns)}
	add := func(name string, of func(*Backend) report.Cell) {
		row := report.Cells(name)
		for _, c := range columns {
			row = append(row, of(c.backend))
		}
		t.Rows = append(t.Rows, row)
	}
	add("events seen", func(b *Backend) report.Cell { return seenCell(&b.Total) })
	add("delay p50/p99/max", func(b *Backend) report.Cell {
		return report.Cell{Text: b.Delay.String(), Title: "from the kernel's time stamp to delivery, less the hold time"}
	})
	add("stamp", func(b *Backend) report.Cell { return verdictCell(b.Total.Stamp) })
	for f := range engine.Field(engine.NumFields) {
		add(f.String(), func(b *Backend) report.Cell { return verdictCell(b.Total.Fields[f]) })
	}
	return t
}

func seenCell(s *score.Score) report.Cell {
	if s.Truth == 0 {
		return report.Cell{Text: "-", Title: "no events"}
	}
	c := heat(share(s.Seen, s.Truth), 100*s.Seen/s.Truth)
	c.Title = fmt.Sprintf("%d of %d events, %d that never happened, %d duplicates, %d out of order, %d not joined",
		s.Seen, s.Truth, s.Phantoms, s.Duplicates, s.Inversions, s.Unjoined)
	if s.Seen < s.Truth || s.Phantoms+s.Duplicates+s.Inversions+s.Unjoined > 0 {
		c.Class = report.Bad
	}
	return c
}

// scenarioTable has a row for each scenario of any report.
func scenarioTable(columns []column) *report.Table {
	t := &report.Table{Title: "Scenarios", Head: head(columns)}
	have := make(map[string]bool)
	for _, c := range columns {
		for _, s := range c.backend.Scenarios {
			if have[s.Scenario] {
				continue
			}
			have[s.Scenario] = true
			row := report.Cells(s.Scenario)
			row[0].ID = s.Scenario
			for _, c := range columns {
				row = append(row, scenarioCell(c.backend.scenario(s.Scenario)))
			}
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}

func scenarioCell(s *Score) report.Cell {
	switch {
	case s == nil:
		return report.Cell{Text: "-", Title: "not run"}
	case s.Skip != "":
		return report.Cell{Text: "skipped", Title: s.Skip}
	}
	all := s.All()
	all.Add(s.Stamp)
	c := verdictCell(all)
	if events := seenCell(&s.Score); events.Class == report.Bad {
		c.Class, c.Text = report.Bad, events.Text+" seen"
		if s.Seen >= s.Truth {
			c.Text = "see list"
		}
		c.Title = events.Title + "; " + c.Title
	}
	return c
}

func (c column) capabilities() (lines []string) {
	for f := range engine.Field(engine.NumFields) {
		k := c.backend.Fields[f.String()]
		lines = append(lines, fmt.Sprintf("%s: %s, %s (%s)", f, k.Origin, k.Via, k.At))
	}
	return lines
}
