package bench

import (
	"errors"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/quark-linux/quark/internal/report"
	"github.com/quark-linux/quark/internal/report/chart"
)

// estimate is the median of some values, with the smallest and the largest.
type estimate struct {
	n                 int
	median, low, high float64
}

func estimateOf(values []float64) estimate {
	n := len(values)
	if n == 0 {
		return estimate{}
	}
	v := slices.Sorted(slices.Values(values))
	return estimate{n, (v[(n-1)/2] + v[n/2]) / 2, v[0], v[n-1]}
}

// String returns the median, and the smallest and largest value if these differ from the median.
func (e estimate) String() string {
	switch low, high := number(e.low), number(e.high); {
	case e.n == 0:
		return "-"
	case low == high:
		return low
	default:
		return fmt.Sprintf("%s (%s-%s)", number(e.median), low, high)
	}
}

// number formats a value with two or three significant digits.
func number(v float64) string {
	switch {
	case v >= 99.95 && v < 100:
		return ">99.9" // 100 is only for all
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v > 0 && v < 0.05:
		return "<0.05"
	case v >= 10 || v == 0:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0")
	}
	return fmt.Sprintf("%.2g", v)
}

// The figures of a row.
func cpu(r *Row) float64      { return each(r, r.CPU) }
func bpf(r *Row) float64      { return each(r, r.BPF) }
func seen(r *Row) float64     { return percent(r.Seen, r.Events) }
func lost(r *Row) float64     { return 100 * float64(r.Lost) / float64(max(1, r.Events)) }
func slowdown(r *Row) float64 { return r.Alone / max(r.Offered, 1e-9) }
func memory(r *Row) float64   { return float64(r.RSS) / 1024 }
func output(r *Row) float64   { return float64(r.Output) / float64(max(1, r.Processes)) }
func ready(r *Row) float64    { return float64(r.Ready.Milliseconds()) }

// each returns the time per process in us.
func each(r *Row, d time.Duration) float64 {
	return float64(d.Nanoseconds()) / 1e3 / float64(max(1, r.Processes))
}

func percent(part, all int) float64 { return 100 * float64(part) / float64(max(1, all)) }

// rows returns the rows of a participant under a load; rate 0 is any.
func (r *Result) rows(name string, kind Load, rate int) (list []*Row) {
	for i := range r.Rows {
		if w := &r.Rows[i]; w.Participant == name && w.Load == kind && (rate == 0 || w.Rate == rate) {
			list = append(list, w)
		}
	}
	return list
}

func estimateRows(rows []*Row, figure func(*Row) float64) estimate {
	var values []float64
	for _, w := range rows {
		values = append(values, figure(w))
	}
	return estimateOf(values)
}

// rates returns the rates of the run in ascending order. Costs are compared at the first rate.
func (r *Result) rates() (list []int) {
	for i := range r.Rows {
		if w := &r.Rows[i]; w.Load == Rate && !slices.Contains(list, w.Rate) {
			list = append(list, w.Rate)
		}
	}
	slices.Sort(list)
	return append(list, 0)
}

// ratio estimates the CPU time of a participant as a multiple of the first participant's CPU time
// in the same repeat.
func (r *Result) ratio(name string) estimate {
	rate := r.rates()[0]
	first := make(map[int]float64) // by repeat
	for _, w := range r.rows(r.Participants[0].Name, Rate, rate) {
		first[w.Repeat] = cpu(w)
	}
	var values []float64
	for _, w := range r.rows(name, Rate, rate) {
		if base := first[w.Repeat]; base > 0 {
			values = append(values, cpu(w)/base)
		}
	}
	return estimateOf(values)
}

// Tables returns the tables of the run.
func (r *Result) Tables() (list []*report.Table) {
	for _, t := range []*report.Table{r.costs(), r.events(), r.published()} {
		if len(t.Rows) > 0 {
			list = append(list, t)
		}
	}
	return list
}

func (r *Result) costs() *report.Table {
	t := new(report.Table)
	if len(r.Participants) == 0 {
		return t
	}
	rate := r.rates()[0]
	t.Title = fmt.Sprintf("Cost of a process at %d processes a second", rate)
	t.Note = "CPU: CPU time of the monitor and its children, which print each event. Ratio: the same as a multiple of the first row in the same repeat. " +
		"Library: CPU time of a process that counts the events of the backend. BPF: run time of eBPF programs, which is in no other column. " +
		"Workload: how many times as long the processes take at full speed. Open: duration of quark.Open."
	t.Head = []string{"", "events", "CPU, us", "ratio", "library, us", "BPF, us", "workload", "memory, MiB", "ready, ms", "open, ms"}
	for _, p := range r.Participants {
		paced, full, library := r.rows(p.Name, Rate, rate), r.rows(p.Name, Full, 0), r.rows(p.Name, Library, 0)
		t.Add(p.Name, strings.Join(p.Kinds, " "), estimateRows(paced, cpu).String(), r.ratio(p.Name).String(), estimateRows(library, cpu).String(),
			estimateRows(r.rows(p.Name, BPF, 0), bpf).String(), estimateRows(full, slowdown).String(), estimateRows(full, memory).String(),
			estimateRows(full, ready).String(), estimateRows(library, ready).String())
	}
	return t
}

func (r *Result) events() *report.Table {
	t := &report.Table{
		Title: "Events seen, in percent",
		Note: "Of the events of the kinds that a participant reports, at rates in processes a second, at full speed, and while the monitor is stopped. " +
			"Lost: events of all processes that the monitor reports as lost, in percent of the events of ours; it is marked if that is less than what is missing. " +
			"Wrong: wrong or stale values, and events that are made up, repeated or out of order, under all loads.",
		Head: []string{""},
	}
	rates := r.rates()
	for _, rate := range rates[:len(rates)-1] {
		t.Head = append(t.Head, fmt.Sprintf("%d/s", rate))
	}
	t.Head = append(t.Head, "full speed", "lost", "stopped", "lost", "wrong")
	for _, p := range r.Participants {
		row := report.Cells(p.Name)
		for _, rate := range rates[:len(rates)-1] {
			row = append(row, seenCell(r.rows(p.Name, Rate, rate)))
		}
		for _, kind := range []Load{Full, Paused} {
			rows := r.rows(p.Name, kind, 0)
			row = append(row, seenCell(rows), lostCell(&p, rows))
		}
		wrong := report.Cell{}
		n := 0
		for i := range r.Rows {
			if r.Rows[i].Participant == p.Name {
				n += r.Rows[i].Wrong
			}
		}
		if wrong.Text = fmt.Sprint(n); n > 0 {
			wrong.Class = report.Odd
		}
		t.Rows = append(t.Rows, append(row, wrong))
	}
	return t
}

// published returns a table of loads that others have published.
func (r *Result) published() *report.Table {
	t := &report.Table{
		Title: "Loads that others publish",
		Note: "Lossless: the highest number of processes a second at which all events were seen (as eAudit measures, IEEE S&P 2024). " +
			"Workers: events seen of processes that 1, 4 and 16 workers start, in percent. " +
			"Rare: events seen of 50 processes a second beside 8 workers a CPU at full speed; slowed: also while the monitor runs for a fifth of the time (as in NODROP, USENIX Security 2023). " +
			"1 to 16 MiB: events that a ring of this size keeps while the backend is stopped at full speed (as in Falco's issue 3246). " +
			"Build: how many times as long the command of --build takes (as Tetragon measures). Output: bytes that the monitor prints for a process.",
		Head: []string{"", "lossless", "1 worker", "4 workers", "16 workers", "rare", "slowed", "1 MiB", "2 MiB", "4 MiB", "16 MiB", "build", "output, bytes"},
	}
	if !slices.ContainsFunc(r.Rows, func(w Row) bool { return w.Load == Rare || w.Load == Build }) {
		return t
	}
	for _, p := range r.Participants {
		row := report.Cells(p.Name, number(r.lossless(p.Name)))
		for _, workers := range []int{1, 4, 16} {
			row = append(row, seenCell(slices.DeleteFunc(r.rows(p.Name, Parallel, 0), func(w *Row) bool { return w.Workers != workers })))
		}
		row = append(row, seenCell(r.rows(p.Name, Rare, 0)), seenCell(r.rows(p.Name, Slowed, 0)))
		for _, mib := range []int{1, 2, 4, 16} {
			row = append(row, seenCell(slices.DeleteFunc(r.rows(p.Name, Ring, 0), func(w *Row) bool { return w.Ring != mib<<20 })))
		}
		t.Rows = append(t.Rows, append(row, report.Cells(estimateRows(r.rows(p.Name, Build, 0), slowdown).String(),
			estimateRows(r.rows(p.Name, Rate, r.rates()[0]), output).String())...))
	}
	return t
}

// lossless returns the highest number of processes per second of a load without a missing event.
func (r *Result) lossless(name string) (most float64) {
	for i := range r.Rows {
		switch w := &r.Rows[i]; w.Load {
		case Rate, Full, Parallel:
			if w.Participant == name && w.Missing() == 0 {
				most = max(most, w.Offered)
			}
		}
	}
	return most
}

func seenCell(rows []*Row) report.Cell {
	e := estimateRows(rows, seen)
	if e.n == 0 {
		return report.Cell{Text: "-"}
	}
	offered := estimateRows(rows, func(r *Row) float64 { return r.Offered })
	return report.Cell{Text: e.String(), Title: fmt.Sprintf("%.0f processes a second ran", offered.median), Class: report.Heat, Shade: int(e.median)}
}

// lostCell shows the events that a participant reported as lost. The cell is marked if in some
// repeat more events were missing than reported as lost.
func lostCell(p *Participant, rows []*Row) report.Cell {
	c := report.Cell{Text: estimateRows(rows, lost).String()}
	if p.Silent && len(rows) > 0 {
		c.Text = "not counted"
	}
	n := 0
	for _, w := range rows {
		if uint64(max(0, w.Missing())) > w.Lost {
			n++
		}
	}
	if n > 0 {
		c.Class, c.Title = report.Bad, fmt.Sprintf("fewer than were missing in %d of %d repeats", n, len(rows))
	}
	return c
}

// Head returns a line about the machine and a line about the method.
func (r *Result) Head() []string {
	repeats := 0
	for i := range r.Rows {
		repeats = max(repeats, r.Rows[i].Repeat+1)
	}
	machine := fmt.Sprintf("Linux %s, %s, %d CPUs", r.Kernel, r.Arch, r.CPUs)
	if r.Model != "" {
		machine += " (" + r.Model + ")"
	}
	machine += fmt.Sprintf(", %s UTC; %.0f processes a second without a monitor; other work used %.0f %% of the CPUs before",
		r.Time.Format("2006-01-02 15:04"), r.Top, 100*r.Busy)
	how := fmt.Sprintf("Medians of %d repeats, with the smallest and the largest value in brackets", repeats)
	if repeats == 1 {
		how = "One repeat: the figures can be off by chance"
	}
	if repeats < r.Repeats {
		how += fmt.Sprintf(" (%d were requested)", r.Repeats)
	}
	return []string{machine, how}
}

// Print writes results as text.
func Print(out io.Writer, results []*Result) (err error) {
	for i, r := range results {
		if i > 0 {
			fmt.Fprintln(out)
		}
		for _, text := range r.Head() {
			fmt.Fprintln(out, text)
		}
		for _, t := range r.Tables() {
			fmt.Fprintln(out)
			err = errors.Join(err, t.WriteText(out))
		}
		fmt.Fprintln(out)
		for _, text := range r.lines() {
			fmt.Fprintln(out, text)
		}
	}
	return err
}

// lines returns the versions of the participants, and the notes.
func (r *Result) lines() (list []string) {
	for _, p := range r.Participants {
		if p.Version != "" {
			list = append(list, p.Name+": "+p.Version)
		}
	}
	return append(list, r.Notes...)
}

// Page writes results as a page of HTML.
func Page(out io.Writer, results []*Result) error {
	p := report.Page{
		Title: "quark: benchmark of process monitors",
		Legend: []report.Cell{
			{Text: "all", Class: report.Heat, Shade: 100}, {Text: "half", Class: report.Heat, Shade: 50}, {Text: "none", Class: report.Heat},
			{Text: "some are wrong", Class: report.Odd}, {Text: "loss that is not reported", Class: report.Bad},
		},
	}
	for _, r := range results {
		p.Sections = append(p.Sections, report.Section{Title: "Linux " + r.Kernel + ", " + r.Arch, Notes: r.Head(),
			Drawings: r.bars("CPU time of a process, in us", Rate, r.rates()[0], cpu) + r.bars("Workload at full speed, times as long", Full, 0, slowdown)})
		for _, t := range r.Tables() {
			p.Sections = append(p.Sections, report.Section{Table: t})
		}
		p.Sections = append(p.Sections, report.Section{Title: "Versions and notes", Lines: r.lines()})
	}
	return p.Write(out)
}

// bars draws a figure of all participants.
func (r *Result) bars(title string, kind Load, rate int, figure func(*Row) float64) template.HTML {
	var bars []chart.Bar
	for _, p := range r.Participants {
		e := estimateRows(r.rows(p.Name, kind, rate), figure)
		if e.n == 0 {
			continue
		}
		b := chart.Bar{Name: p.Name, Value: e.median, Low: e.low, High: e.high, Text: number(e.median), Colour: chart.Orange}
		if p.Own {
			b.Colour = chart.Blue
		}
		bars = append(bars, b)
	}
	return chart.Bars(title, bars)
}
