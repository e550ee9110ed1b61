package fidelity

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/score"
	"github.com/quark-linux/quark/internal/report"
)

type figure struct {
	name string
	of   func(*score.Score) string
}

// events are the figures of completeness, precision and order. Figures that grow with the number of
// events are printed as shares.
var events = []figure{
	{"events seen", func(s *score.Score) string { return fmt.Sprintf("%d of %d", s.Seen, s.Truth) }},
	{"phantoms, duplicates", func(s *score.Score) string { return fmt.Sprintf("%d, %d", s.Phantoms, s.Duplicates) }},
	{"out of order", func(s *score.Score) string { return fmt.Sprint(s.Inversions) }},
	{"processes joined by the rules", func(s *score.Score) string {
		if s.Joined+s.Unjoined == 0 {
			return "-"
		}
		return fmt.Sprintf("%d of %d", s.Joined, s.Joined+s.Unjoined)
	}},
}

// fields are the figures of the stamps and of each field.
func fields() []figure {
	list := []figure{{"stamps right", func(s *score.Score) string { return percent(s.Stamp) }}}
	for f := range engine.Field(engine.NumFields) {
		list = append(list, figure{f.String(), func(s *score.Score) string { return percent(s.Fields[f]) }})
	}
	return list
}

// Print writes the report as tables.
func (r *Report) Print(out io.Writer) {
	fmt.Fprintf(out, "Linux %s, %s, %d CPUs\n\n", r.Kernel, r.Arch, r.CPUs)
	t := new(report.Table)
	row := func(name string, of func(*Backend) string) {
		cells := report.Cells(name)
		for _, b := range r.columns() {
			cells = append(cells, report.Cell{Text: of(b)})
		}
		t.Rows = append(t.Rows, cells)
	}
	total := func(list ...figure) {
		for _, f := range list {
			row(f.name, func(b *Backend) string { return f.of(&b.Total) })
		}
	}
	row("", func(b *Backend) string { return b.Name })
	row("events seen, outside storms", func(b *Backend) string { return events[0].of(&b.Total) })
	total(events[1:]...)
	row("delay beyond the hold time, p50/p99/max", func(b *Backend) string { return b.Delay.String() })
	row("lost", func(b *Backend) string { return lostText(b.Lost, b.Cause) })
	if len(r.Monitors) > 0 {
		row("missing", func(b *Backend) string { return fmt.Sprint(b.missing()) })
	}
	total(fields()...)
	row("all fields", func(b *Backend) string { return percent(b.Total.All()) })
	t.WriteText(out)
	fmt.Fprintln(out)
	for _, a := range r.Absent {
		fmt.Fprintf(out, "not run: %s: %s\n", a.Backend, a.Reason)
	}
	if columns := r.columns(); len(columns) > 0 {
		for _, s := range columns[0].Scenarios {
			if s.Skip != "" {
				fmt.Fprintf(out, "skipped: %s: %s\n", s.Scenario, s.Skip)
			}
		}
	}
	r.printMonitors(out)
	for _, d := range r.Defects() {
		fmt.Fprintf(out, "DEFECT: %s\n", d)
	}
}

func lostText(n uint64, cause string) string { return strings.TrimSpace(fmt.Sprint(n, " ", cause)) }

// percent formats the shares of all classes, right values first.
func percent(v score.Counts) string {
	n := v.Total()
	if n == 0 {
		return "-"
	}
	var rest []string
	for _, c := range []struct {
		n    int
		name string
	}{
		{v.Cached, "cached"}, {v.Truncated, "cut"}, {v.Unknown, "unknown"}, {v.Unexplained, "UNEXPLAINED"}, {v.Stale, "STALE"}, {v.Wrong, "WRONG"}, {v.Missed, "missed"},
	} {
		if c.n > 0 {
			rest = append(rest, share(c.n, n)+" "+c.name)
		}
	}
	return strings.TrimSpace(share(v.Right, n) + " right " + strings.Join(rest, ", "))
}

// share formats part/all as a percentage. It never rounds to 0 % or 100 %.
func share(part, all int) string {
	p := 100 * float64(part) / float64(all)
	switch {
	case part == 0 || part == all:
		return fmt.Sprintf("%.0f %%", p)
	case p < 0.1:
		return "<0.1 %"
	case p > 99.9:
		return ">99.9 %"
	}
	return fmt.Sprintf("%.1f %%", p)
}

func (b *Backend) scenario(name string) *Score {
	return first(b.Scenarios, func(s *Score) bool { return s.Scenario == name })
}

// first returns the first element for which wanted is true, or nil.
func first[T any](list []*T, wanted func(*T) bool) *T {
	if i := slices.IndexFunc(list, wanted); i >= 0 {
		return list[i]
	}
	return nil
}
