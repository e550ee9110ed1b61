package matrix

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/quark-linux/quark/internal/harness/record"
	"github.com/quark-linux/quark/internal/report"
)

// columns returns the columns of the tables: the backends that run by default or that tests ran on,
// and NoBackend.
func (r Results) columns() []string {
	var names []string
	for _, b := range Backends {
		ran := func(o Outcome) bool { return len(o.Count(b.Name)) > 0 }
		if b.Default || slices.ContainsFunc(r.Guests, ran) {
			names = append(names, b.Name)
		}
	}
	return append(names, NoBackend)
}

// table returns a table with a row for each guest, in which the kernel links to the guest's log.
func (r Results) table() *report.Table {
	t := &report.Table{Head: slices.Concat([]string{"kernel", "release", "BTF", "tests", "state"}, r.columns(), []string{"seconds"})}
	for i, g := range r.Guests {
		release := "?" // the guest did not boot
		if g.Hello != nil {
			release = g.Hello.Kernel
		}
		row := report.Cells(g.Kernel.Name, release, string(g.BTF), string(g.Part))
		row[0].Link = guestID(i)
		row = append(row, stateCell(g.State, string(g.State)))
		for _, c := range r.columns() {
			row = append(row, report.Cell{Text: scoreText(g.Count(c))})
		}
		took := seconds(g.TotalMS)
		if g.Cached {
			took = "cached"
		}
		t.Rows = append(t.Rows, append(row, report.Cell{Text: took}))
	}
	for _, name := range r.Missing {
		t.Rows = append(t.Rows, append(report.Cells(name, "", "", ""), stateCell(record.Lost, string(record.Lost))))
	}
	return t
}

// Table prints a line for each guest, then the faults of failed guests, then the missing guests.
func (r Results) Table(w io.Writer) error {
	if err := r.table().WriteText(w); err != nil {
		return err
	}
	for _, g := range r.Guests {
		if err := g.printFaults(w); err != nil {
			return err
		}
	}
	for _, name := range r.Missing {
		if _, err := fmt.Fprintf(w, "\n%s: %s: %s\n", name, record.Lost, notRunAtAll); err != nil {
			return err
		}
	}
	return nil
}

// printFaults prints the faults of a guest, and the command that runs it again.
func (o Outcome) printFaults(w io.Writer) error {
	if o.State.Good() {
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s: %s: %s\n", o.Guest, o.State, o.Reason)
	for _, c := range o.Console {
		if !strings.HasPrefix(o.Reason, c) {
			fmt.Fprintf(&b, "  console: %s\n", c)
		}
	}
	for i, d := range o.Damaged {
		if i > 0 || o.State != record.Lost {
			fmt.Fprintf(&b, "  result port: %s\n", d)
		}
	}
	lost := 0
	for _, c := range o.Cells {
		if c.State == record.Lost && strings.HasPrefix(c.Reason, notRun) {
			lost++
		} else if !c.State.Good() {
			fmt.Fprintf(&b, "  %s: %s @ %s: %s\n    repro: %s\n", c.State, c.Test, c.Backend, c.Reason, c.Repro)
		}
	}
	if lost > 0 {
		fmt.Fprintf(&b, "  lost: %d tests did not run\n", lost)
	}
	fmt.Fprintf(&b, "  repro: %s\n  console: %s\n", o.Repro, o.Log)
	for _, line := range o.Tail {
		fmt.Fprintf(&b, "  | %s\n", line)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// scoreText returns a table's cell: "12" if all of 12 pass, "10+2s" with 2 skipped, "9/12" if 3
// failed, "-" for no test.
func scoreText(n map[record.State]int) string {
	total := 0
	for _, k := range n {
		total += k
	}
	good := n[record.Pass] + n[record.Skip]
	switch {
	case total == 0:
		return "-"
	case good < total:
		return fmt.Sprintf("%d/%d", good, total)
	case n[record.Skip] > 0:
		return fmt.Sprintf("%d+%ds", n[record.Pass], n[record.Skip])
	}
	return fmt.Sprint(total)
}

// seconds returns milliseconds as seconds with one decimal.
func seconds(ms int64) string { return fmt.Sprintf("%.1f", float64(ms)/1000) }
