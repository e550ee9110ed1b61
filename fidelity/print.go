package fidelity

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/score"
)

// Print writes the report as tables.
func (r *Report) Print(out io.Writer) {
	fmt.Fprintf(out, "Linux %s, %s, %d CPUs\n\n", r.Kernel, r.Arch, r.CPUs)
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	r.row(w, "", func(b *Backend) string { return b.Name })
	r.row(w, "events seen, outside storms", func(b *Backend) string { return fmt.Sprintf("%d of %d", b.Total.Seen, b.Total.Truth) })
	r.row(w, "phantoms, duplicates", func(b *Backend) string { return fmt.Sprintf("%d, %d", b.Total.Phantoms, b.Total.Duplicates) })
	r.row(w, "out of order", func(b *Backend) string { return fmt.Sprint(b.Total.Inversions) })
	r.row(w, "lives joined as the rules say", func(b *Backend) string {
		return fmt.Sprintf("%d of %d", b.Total.Joined, b.Total.Joined+b.Total.Unjoined)
	})
	r.row(w, "delay beyond the hold time, p50/p99/max", func(b *Backend) string {
		return fmt.Sprintf("%s / %s / %s", ms(b.Delay.P50), ms(b.Delay.P99), ms(b.Delay.Max))
	})
	r.row(w, "lost", func(b *Backend) string { return strings.TrimSpace(fmt.Sprint(b.Lost, " ", b.Cause)) })
	r.row(w, "stamps right", func(b *Backend) string { return percent(b.Total.Stamp) })
	for f := range engine.Field(engine.NumFields) {
		r.row(w, f.String(), func(b *Backend) string { return percent(b.Total.Fields[f]) })
	}
	r.row(w, "all fields", func(b *Backend) string { return percent(b.Total.All()) })
	w.Flush()
	r.printLoad(out)
	for _, a := range r.Absent {
		fmt.Fprintf(out, "not run: %s: %s\n", a.Backend, a.Reason)
	}
	if len(r.Backends) > 0 {
		for _, s := range r.Backends[0].Scenarios {
			if s.Skip != "" {
				fmt.Fprintf(out, "skipped: %s: %s\n", s.Scenario, s.Skip)
			}
		}
	}
	for _, d := range r.Defects() {
		fmt.Fprintf(out, "DEFECT: %s\n", d)
	}
}

func (r *Report) row(w io.Writer, name string, of func(*Backend) string) {
	fmt.Fprint(w, name)
	for _, b := range r.Backends {
		fmt.Fprintf(w, "\t%s", of(b))
	}
	fmt.Fprintln(w)
}

func ms(ns uint64) string { return fmt.Sprintf("%.1f ms", float64(ns)/1e6) }

// percent formats the shares of all verdicts, right values first.
func percent(v score.Verdicts) string {
	n := v.Total()
	if n == 0 {
		return "-"
	}
	var rest []string
	for _, c := range []struct {
		n    int
		name string
	}{{v.Carried, "carried"}, {v.Truncated, "cut"}, {v.Unknown, "unknown"}, {v.Unexplained, "UNEXPLAINED"}, {v.Wrong, "WRONG"}, {v.Missed, "missed"}} {
		if c.n > 0 {
			rest = append(rest, fmt.Sprintf("%s %s", share(c.n, n), c.name))
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

func (r *Report) printLoad(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	if len(r.Honesty) > 0 {
		fmt.Fprintln(w, "\nforced loss\tmissing\treported\tcause")
	}
	for _, h := range r.Honesty {
		missing := fmt.Sprint(h.Absent)
		if h.AtMost > h.Absent {
			missing += fmt.Sprintf(" to %d", h.AtMost)
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", h.Backend, missing, h.Reported, h.Cause)
	}
	if len(r.Storms) > 0 {
		fmt.Fprintln(w, "\nstorm\tprocesses/s\tevents seen\tlost\tfields known")
	}
	for _, s := range r.Storms {
		fmt.Fprintf(w, "%s\t%.0f\t%d of %d\t%s\t%.0f %%\n", s.Backend, s.Offered, s.Seen, s.Truth,
			strings.TrimSpace(fmt.Sprint(s.Lost, " ", s.Cause)), 100*s.Known)
	}
	if len(r.Costs) > 0 {
		fmt.Fprintln(w, "\ncost\tCPU/1,000 processes\tworkload\teBPF/process\tpeak memory\tlost")
	}
	for _, c := range r.Costs {
		fmt.Fprintf(w, "%s\t%s\t%.2f x\t%s\t%.0f MiB\t%d\n", c.Backend, c.CPUText(), c.Slowdown,
			c.ProgramsText(), float64(c.RSS)/1024, c.Lost)
	}
	fmt.Fprintln(w)
	w.Flush()
}
