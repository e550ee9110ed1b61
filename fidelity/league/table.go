package league

import (
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/quark-linux/quark/fidelity/bench"
	"github.com/quark-linux/quark/fidelity/monitor"
	"github.com/quark-linux/quark/fidelity/scenario"
)

// Table is one of what a run is printed as, with a row for each participant.
type Table struct {
	Title, Note string
	Head        []string
	Rows        []TableRow
}

// TableRow is a row of a Table.
type TableRow struct {
	Name  string
	Cells []Cell
}

// Cell is one value of a Table.
type Cell struct {
	Text, Title string
	Class       string // bad, odd, words or empty
	Shade       int    // percentage of what is good; -1: neither good nor bad
}

// Style returns the shade for the page's style sheet.
func (c Cell) Style() template.CSS {
	if c.Class != "" || c.Shade < 0 {
		return ""
	}
	return template.CSS(fmt.Sprintf("--shade:%d", c.Shade))
}

// HTMLClass returns the class for the page's style sheet.
func (c Cell) HTMLClass() string {
	if c.Class == "" && c.Shade >= 0 {
		return "heat"
	}
	return c.Class
}

func plain(text string) Cell { return Cell{Text: text, Shade: -1} }

// rows returns those of a participant that are wanted.
func (r *Run) rows(name string, wanted func(*Row) bool) (list []*Row) {
	for i := range r.Rows {
		if w := &r.Rows[i]; w.Participant == name && wanted(w) {
			list = append(list, w)
		}
	}
	return list
}

// estimate returns the estimate of a figure of rows.
func estimate(rows []*Row, figure func(*Row) float64) Estimate {
	var values []float64
	for _, w := range rows {
		values = append(values, figure(w))
	}
	return EstimateOf(values)
}

// shape is a load that rows have in common.
type shape struct {
	load     string
	rate     int
	workers  int
	lifetime time.Duration
}

func shapeOf(w *Row) shape { return shape{w.Load, w.Rate, w.Workers, w.Lifetime} }

func (s shape) is(w *Row) bool { return shapeOf(w) == s }

// shapes returns the loads of a kind, in the order of the first rows that have them.
func (r *Run) shapes(load string) (list []shape) {
	for i := range r.Rows {
		if s := shapeOf(&r.Rows[i]); s.load == load && !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return list
}

// cost returns the load by which costs are compared: the rate that is nearest to costRate.
func (r *Run) cost() (best shape) {
	distance := func(s shape) int { return max(s.rate-costRate, costRate-s.rate) }
	for i, s := range r.shapes(Rate) {
		if i == 0 || distance(s) < distance(best) {
			best = s
		}
	}
	return best
}

// full returns the load of as many lives as all CPUs can start.
func (r *Run) full() (most shape) {
	for _, s := range r.shapes(Full) {
		if s.workers >= most.workers {
			most = s
		}
	}
	return most
}

func percent(part, all int) float64 { return 100 * float64(part) / float64(max(1, all)) }

// number formats a value with three digits, as far as they say something.
func number(v float64) string {
	switch {
	case v >= 99.95 && v < 100:
		return ">99.9" // all is 100 alone
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v > 0 && v < 0.05:
		return "<0.1"
	case v >= 10 || v == 0:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0")
	}
	return fmt.Sprintf("%.2g", v)
}

// seen is the share of events that were seen.
func seen(w *Row) float64 { return percent(w.Seen, w.Truth) }

func shareCell(e Estimate, title string) Cell {
	if e.N == 0 {
		return Cell{Text: "-", Title: "not measured", Shade: -1}
	}
	return Cell{Text: e.Text(number), Title: title, Shade: int(e.Median)}
}

func valueCell(e Estimate, title string) Cell {
	return Cell{Text: e.Text(number), Title: title, Shade: -1}
}

// each makes a row of cells for every participant.
func (r *Run) each(t *Table, cells func(*Participant) []Cell) {
	for i := range r.Participants {
		p := &r.Participants[i]
		t.Rows = append(t.Rows, TableRow{p.Name, cells(p)})
	}
}

// Tables returns what was measured as tables.
func (r *Run) Tables() []Table {
	return []Table{r.overview(), r.complete(), r.lifetimes(), r.honesty(), r.delays(), r.findings()}
}

func (r *Run) overview() Table {
	cost, full := r.cost(), r.full()
	t := Table{
		Title: "At a glance",
		Note: fmt.Sprintf("Seen: of the events that it reports, in percent. Fields: how many of %d that people ask for it had right of lives of 10 ms, in percent. "+
			"CPU: of the monitor and its children for 1,000 lives at %d a second, in ms; of one of quark's backends that only counts in brackets. "+
			"BPF: run time of its eBPF programs for a life, in us. Workload: how many times as long lives take at full speed.", len(Wanted), cost.rate),
		Head: []string{"reports", fmt.Sprintf("seen at %d/s", cost.rate), "seen at full speed", "fields, 10 ms", "CPU/1,000 [library], ms", "BPF/life, us", "workload", "memory, MiB", "ready, ms"},
	}
	r.each(&t, func(p *Participant) []Cell {
		paced, flat := r.rows(p.Name, cost.is), r.rows(p.Name, full.is)
		cpu := estimate(paced, func(w *Row) float64 { return perLife(w, w.CPU) * 1e6 })
		text := cpu.Text(number)
		if counted := r.rows(p.Name, func(w *Row) bool { return w.Load == Counted }); len(counted) > 0 {
			text += " [" + estimate(counted, func(w *Row) float64 { return perLife(w, w.CPU) * 1e6 }).Text(number) + "]"
		}
		programs := r.rows(p.Name, func(w *Row) bool { return w.Load == Programs })
		short := r.rows(p.Name, func(w *Row) bool { return w.Load == Lifetime && w.Lifetime == 10*time.Millisecond })
		return []Cell{
			{Text: strings.Join(p.Kinds, " "), Class: "words"},
			shareCell(estimate(paced, seen), ""), shareCell(estimate(flat, seen), ""),
			shareCell(estimate(short, known), ""),
			plain(text),
			valueCell(estimate(programs, func(w *Row) float64 { return perLife(w, w.Programs) * 1e6 }), "its eBPF programs alone"),
			valueCell(estimate(flat, func(w *Row) float64 { return w.Alone / max(w.Offered, 1e-9) }), ""),
			valueCell(estimate(flat, func(w *Row) float64 { return float64(w.RSS) / 1024 }), "at its most"),
			valueCell(estimate(flat, func(w *Row) float64 { return float64(w.Ready.Milliseconds()) }), ""),
		}
	})
	return t
}

// perLife returns a time in seconds.
func perLife(w *Row, d time.Duration) float64 { return d.Seconds() / float64(max(1, w.Lives)) }

func known(w *Row) float64 { return percent(w.Known, w.Wanted) }

func (r *Run) complete() Table {
	t := Table{Title: "Seen, by rate", Note: "Percent of the events that it reports, of as many lives a second. The last loads are as many lives as so many workers can start."}
	list := append(r.shapes(Rate), r.shapes(Full)...)
	for _, s := range list {
		if s.load == Rate {
			t.Head = append(t.Head, fmt.Sprintf("%d/s", s.rate))
		} else {
			t.Head = append(t.Head, fmt.Sprintf("%d at full speed", s.workers))
		}
	}
	r.each(&t, func(p *Participant) (cells []Cell) {
		for _, s := range list {
			rows := r.rows(p.Name, s.is)
			offered := estimate(rows, func(w *Row) float64 { return w.Offered })
			judge := estimate(rows, judgeShare)
			cells = append(cells, shareCell(estimate(rows, seen), fmt.Sprintf("%.0f lives a second were made; the judge took %.1f %% of a CPU", offered.Median, judge.Median)))
		}
		return cells
	})
	return t
}

// judgeShare returns how much of one CPU the judge took while the load ran, in percent.
func judgeShare(w *Row) float64 {
	if w.Lives == 0 || w.Offered == 0 {
		return 0
	}
	return 100 * w.Judge.Seconds() / (float64(w.Lives) / w.Offered)
}

func (r *Run) lifetimes() Table {
	t := Table{Title: "Fields known, by the lifetime of a process", Note: "Percent of the fields " + wantedNames() + " that were right in some event of a life and wrong in none. A life that was not seen has none."}
	for _, lifetime := range scenario.Lifetimes {
		t.Head = append(t.Head, lifetime.String())
	}
	r.each(&t, func(p *Participant) (cells []Cell) {
		for _, lifetime := range scenario.Lifetimes {
			rows := r.rows(p.Name, func(w *Row) bool { return w.Load == Lifetime && w.Lifetime == lifetime })
			wrong := 0
			for _, w := range rows {
				wrong += w.Wrong + w.Stale
			}
			c := shareCell(estimate(rows, known), fmt.Sprintf("%d values wrong or of another time", wrong))
			cells = append(cells, c)
		}
		return cells
	})
	return t
}

func wantedNames() string {
	var names []string
	for _, f := range Wanted {
		names = append(names, f.String())
	}
	return strings.Join(names, ", ")
}

func (r *Run) honesty() Table {
	full, stopped := r.full(), shape{}
	if list := r.shapes(Stopped); len(list) > 0 {
		stopped = list[0]
	}
	t := Table{
		Title: "Honesty: what was missed, and what it said of that",
		Note: "Of all events of the lives, in percent: at full speed, and while the monitor stood still. What it says is of all processes of the machine, " +
			"and in its own unit: perf's are records, procpoll's tasks, of which each counts as two events.",
		Head: []string{"missed", "said", "stopped: missed", "stopped: said", "doubled or made up", "out of order", "wrong or stale values"},
	}
	r.each(&t, func(p *Participant) (cells []Cell) {
		for _, s := range []shape{full, stopped} {
			rows := r.rows(p.Name, s.is)
			cells = append(cells, valueCell(estimate(rows, func(w *Row) float64 { return percent(w.Missing(), w.Truth) }), ""))
			cells = append(cells, saidCell(p, rows))
		}
		extra, inverted, wrong := 0, 0, 0
		for _, w := range r.rows(p.Name, func(w *Row) bool { return w.Load == Rate || w.Load == Full || w.Load == Lifetime }) {
			extra, inverted, wrong = extra+w.Extra, inverted+w.Inverted, wrong+w.Wrong+w.Stale
		}
		return append(cells, badCell(extra), badCell(inverted), badCell(wrong))
	})
	return t
}

func badCell(n int) Cell {
	c := Cell{Text: fmt.Sprint(n), Title: "of all loads", Shade: -1}
	if n > 0 {
		c.Class = "odd"
	}
	return c
}

// saidCell says what a participant told of its loss. It is bad if that was less than what was
// missing, in some repeat.
func saidCell(p *Participant, rows []*Row) Cell {
	hid := 0
	for _, w := range rows {
		if uint64(w.Missing()) > lostEvents(p, w) {
			hid++
		}
	}
	c := valueCell(estimate(rows, func(w *Row) float64 { return 100 * float64(lostEvents(p, w)) / float64(max(1, w.Truth)) }), "")
	if p.Silent && len(rows) > 0 {
		c.Text = "does not count"
	}
	if hid > 0 {
		c.Class, c.Title = "bad", fmt.Sprintf("less than was missing in %d of %d repeats", hid, len(rows))
	}
	return c
}

// lostEvents returns how many events a participant said it had lost. Who looks into /proc counts
// tasks, of which each has a fork and an exit.
func lostEvents(p *Participant, w *Row) uint64 {
	if p.Own && p.Name == "procpoll" {
		return 2 * w.Lost
	}
	return w.Lost
}

func (r *Run) delays() Table {
	cost, full := r.cost(), r.full()
	t := Table{
		Title: "Delay",
		Note:  "From an event to the arrival of its line, in ms; for a monitor without stamps from the last moment at which it can have happened. quark holds events to put them in order, here for 100 ms.",
		Head:  []string{fmt.Sprintf("median at %d/s", cost.rate), "99 % within", "median at full speed", "99 % within"},
	}
	ms := func(of func(*Row) time.Duration) func(*Row) float64 {
		return func(w *Row) float64 { return float64(of(w).Microseconds()) / 1e3 }
	}
	r.each(&t, func(p *Participant) (cells []Cell) {
		for _, s := range []shape{cost, full} {
			rows := r.rows(p.Name, func(w *Row) bool { return s.is(w) && w.Seen > 0 })
			cells = append(cells, valueCell(estimate(rows, ms(func(w *Row) time.Duration { return w.DelayP50 })), ""),
				valueCell(estimate(rows, ms(func(w *Row) time.Duration { return w.DelayP99 })), ""))
		}
		return cells
	})
	return t
}

func (r *Run) findings() Table {
	t := Table{
		Title: "Known to be wrong",
		Note:  "Scenarios in which some are known to be wrong: how many events or values were, with the known fault. quark-fidelity run -S SCENARIO --monitor NAME shows one again.",
	}
	for _, f := range r.Findings {
		if !slices.Contains(t.Head, f.Scenario) {
			t.Head = append(t.Head, f.Scenario)
		}
	}
	order := make([]string, 0, len(t.Head))
	for _, f := range monitor.Faults() {
		if slices.Contains(t.Head, f.Scenario) && !slices.Contains(order, f.Scenario) {
			order = append(order, f.Scenario)
		}
	}
	t.Head = order
	r.each(&t, func(p *Participant) (cells []Cell) {
		for _, name := range t.Head {
			i := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.Participant == p.Name && f.Scenario == name })
			if i < 0 {
				cells = append(cells, Cell{Text: "-", Title: "not run", Shade: -1})
				continue
			}
			f := &r.Findings[i]
			c := Cell{Text: fmt.Sprint(f.Bad), Title: fmt.Sprintf("%d of %d events seen. %s", f.Seen, f.Truth, strings.Join(f.Findings, "; ")), Shade: 100}
			if f.Bad > 0 {
				c.Class = "odd"
			}
			if f.Count > 0 {
				c.Text, c.Class = fmt.Sprintf("%d: %s", f.Bad, f.Fault), "bad"
			}
			cells = append(cells, c)
		}
		return cells
	})
	return t
}

// Head says what machine a run is of, and how it was measured, a line each.
func (r *Run) Head() (lines []string) {
	repeats, coverage := 0, 0.0
	for i := range r.Rows {
		repeats = max(repeats, r.Rows[i].Repeat+1)
	}
	if repeats > 0 {
		coverage = EstimateOf(make([]float64, repeats)).Coverage
	}
	machine := fmt.Sprintf("Linux %s, %s, %d CPUs", r.Kernel, r.Arch, r.CPUs)
	if r.Model != "" {
		machine += " (" + r.Model + ")"
	}
	lines = append(lines, fmt.Sprintf("%s, %d MiB, %s UTC; it makes %.0f lives a second; %.0f %% of the CPUs were busy before", machine, r.Memory/1024,
		r.Time.Format("2006-01-02 15:04"), r.Top, 100*r.Busy))
	how := fmt.Sprintf("Medians of %d repeats", repeats)
	switch {
	case repeats == 1:
		how = "One repeat, so that nothing says how far these figures vary"
	case coverage < confidence:
		how += fmt.Sprintf(", with all of them in brackets, which have the median with %.0f %%", 100*coverage)
	default:
		how += fmt.Sprintf(", with an interval that has the median with %.0f %%", 100*coverage)
	}
	if repeats < r.Repeats {
		how += fmt.Sprintf(" (%d were wanted)", r.Repeats)
	}
	var all, most []*Row
	for i := range r.Rows {
		if w := &r.Rows[i]; w.Load == Rate || w.Load == Full {
			all = append(all, w)
			if len(most) == 0 || w.Offered > most[0].Offered {
				most = []*Row{w}
			}
		}
	}
	if len(all) > 0 {
		how += fmt.Sprintf("; the judge took %.1f %% of a CPU meanwhile, %.1f %% at the highest rate, %.0f lives/s", estimate(all, judgeShare).Median,
			judgeShare(most[0]), most[0].Offered)
	}
	return append(lines, how)
}

// Print writes runs as text.
func Print(out io.Writer, runs []*Run) error {
	for i, r := range runs {
		if i > 0 {
			fmt.Fprintln(out)
		}
		for _, text := range r.Head() {
			fmt.Fprintln(out, text)
		}
		for _, t := range r.Tables() {
			if len(t.Head) > 0 {
				t.print(out)
			}
		}
		if len(r.Filter) > 0 {
			w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
			bench.PrintExperiment(w, r.FilterOf, r.Filter)
			w.Flush()
		}
		fmt.Fprintln(out)
		for _, p := range r.Participants {
			if !p.Own && p.Version != "" {
				fmt.Fprintf(out, "%s: %s\n", p.Name, p.Version)
			}
		}
		for _, n := range r.Notes {
			fmt.Fprintf(out, "%s: %s\n", n.Backend, n.Reason)
		}
		for _, a := range r.Absent {
			fmt.Fprintf(out, "not run: %s: %s\n", a.Backend, a.Reason)
		}
	}
	return nil
}

// Markdown writes the tables of runs that say most as Markdown.
func Markdown(out io.Writer, runs []*Run) error {
	var b strings.Builder
	for _, r := range runs {
		for _, text := range r.Head() {
			fmt.Fprintf(&b, "%s.\n", text)
		}
		for _, t := range []Table{r.overview(), r.honesty(), r.findings()} {
			if len(t.Head) == 0 {
				continue
			}
			fmt.Fprintf(&b, "\n**%s.** %s\n\n| | %s |\n|---|%s\n", t.Title, t.Note, strings.Join(t.Head, " | "), strings.Repeat("---|", len(t.Head)))
			for _, row := range t.Rows {
				fmt.Fprintf(&b, "| %s |", row.Name)
				for _, c := range row.Cells {
					fmt.Fprintf(&b, " %s |", strings.ReplaceAll(c.Text, "|", `\|`))
				}
				fmt.Fprintln(&b)
			}
		}
		for _, a := range r.Absent {
			fmt.Fprintf(&b, "\nNot run: %s: %s.\n", a.Backend, a.Reason)
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func (t *Table) print(out io.Writer) {
	fmt.Fprintf(out, "\n%s\n", t.Title)
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintf(w, "\t%s\n", strings.Join(t.Head, "\t"))
	for _, row := range t.Rows {
		fmt.Fprint(w, row.Name)
		for _, c := range row.Cells {
			fmt.Fprintf(w, "\t%s", c.Text)
		}
		fmt.Fprintln(w)
	}
	w.Flush()
}
