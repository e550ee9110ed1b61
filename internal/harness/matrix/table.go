package matrix

import (
	"fmt"
	"io"
	"sort"
	"strings"
	"text/tabwriter"

	"github.com/quark-linux/quark/internal/harness/record"
)

// columns of the tables: the backends, and the tests that need none.
func columns() []string {
	var names []string
	for _, b := range Backends {
		names = append(names, b.Name)
	}
	return append(names, NoBackend)
}

// Table prints a line for each guest, then what is wrong with those that are not good.
func (r Results) Table(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintf(tw, "kernel\tBTF\ttests\tstate\t%s\tseconds\toverhead\trelease\n", strings.Join(columns(), "\t"))
	for _, g := range r.Guests {
		release := ""
		if g.Hello != nil {
			release = g.Hello.Kernel
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t", g.Kernel.Name, g.BTF, g.Part.String(), g.State)
		for _, c := range columns() {
			fmt.Fprintf(tw, "%s\t", score(g.Count(c)))
		}
		took := fmt.Sprintf("%.1f", float64(g.TotalMS)/1000)
		if g.Cached {
			took = "cached"
		}
		fmt.Fprintf(tw, "%s\t%.1f\t%s\n", took, float64(g.OverheadMS())/1000, release)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, g := range r.Guests {
		if err := g.complaints(w); err != nil {
			return err
		}
	}
	return nil
}

// complaints prints what is wrong with a guest, and how to have it again.
func (o Outcome) complaints(w io.Writer) error {
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
		if c.State == record.Lost && strings.HasPrefix(c.Reason, "not run: ") {
			lost++
			continue
		}
		if !c.State.Good() {
			fmt.Fprintf(&b, "  %s: %s @ %s: %s\n", c.State, c.Test, c.Backend, c.Reason)
			fmt.Fprintf(&b, "    repro: %s\n", c.Repro)
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

// score is a cell of the table: "12" when all of 12 pass, "10+2s" with 2 skipped, "9/12" when 3 are
// bad, "-" for none.
func score(n map[record.State]int) string {
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

// TestTimes prints how long each test took on each backend, in seconds: the median over the guests
// that ran it and, in parentheses, the most.
func (r Results) TestTimes(w io.Writer) error {
	times := make(map[string]map[string][]int64)
	sums := make(map[string]int64)
	for _, g := range r.Guests {
		for _, c := range g.Cells {
			if times[c.Test] == nil {
				times[c.Test] = make(map[string][]int64)
			}
			times[c.Test][c.Backend] = append(times[c.Test][c.Backend], c.DurationMS)
			if !c.Joint {
				sums[c.Test] += c.DurationMS
			}
		}
	}
	var tests []string
	for t := range times {
		tests = append(tests, t)
	}
	sort.Slice(tests, func(i, j int) bool {
		if sums[tests[i]] != sums[tests[j]] {
			return sums[tests[i]] > sums[tests[j]]
		}
		return tests[i] < tests[j]
	})
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintf(tw, "test\t%s\tsum\n", strings.Join(columns(), "\t"))
	for _, t := range tests {
		fmt.Fprintf(tw, "%s\t", t)
		for _, c := range columns() {
			ms := times[t][c]
			if len(ms) == 0 {
				fmt.Fprint(tw, "-\t")
				continue
			}
			sort.Slice(ms, func(i, j int) bool { return ms[i] < ms[j] })
			fmt.Fprintf(tw, "%.1f (%.1f)\t", float64(ms[len(ms)/2])/1000, float64(ms[len(ms)-1])/1000)
		}
		fmt.Fprintf(tw, "%.1f\n", float64(sums[t])/1000)
	}
	return tw.Flush()
}
