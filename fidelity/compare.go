package fidelity

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/score"
)

// Compare writes the differences between two runs for each backend: first the totals, then the
// scenarios. Figures that are equal are left out.
func Compare(out io.Writer, a, b *Report) {
	fmt.Fprintf(out, "A: Linux %s, %s, %s\nB: Linux %s, %s, %s\n", a.Kernel, a.Arch, a.Version, b.Kernel, b.Arch, b.Version)
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	defer w.Flush()
	for _, x := range a.Backends {
		y := b.backend(x.Name)
		if y == nil {
			fmt.Fprintf(w, "\n%s: not in B\n", x.Name)
			continue
		}
		fmt.Fprintf(w, "\n%s\tA\tB\n", x.Name)
		difference(w, "", &x.Total, &y.Total)
		for _, s := range x.Scenarios {
			t := y.scenario(s.Scenario)
			switch {
			case t == nil:
				fmt.Fprintf(w, "%s\t\tnot run\n", s.Scenario)
			case s.Skip != t.Skip:
				fmt.Fprintf(w, "%s\t%s\t%s\n", s.Scenario, ran(s), ran(t))
			default:
				difference(w, s.Scenario+": ", &s.Score, &t.Score)
			}
		}
	}
	for _, y := range b.Backends {
		if a.backend(y.Name) == nil {
			fmt.Fprintf(w, "\n%s: not in A\n", y.Name)
		}
	}
	for _, c := range a.Costs {
		for _, d := range b.Costs {
			if c.Backend == d.Backend {
				fmt.Fprintf(w, "\n%s: CPU/1,000 processes\t%s\t%s\n", c.Backend, c.CPU, d.CPU)
				fmt.Fprintf(w, "%s: eBPF/process\t%s\t%s\n", c.Backend, c.Programs, d.Programs)
			}
		}
	}
}

// ran says whether a scenario ran, or why it was skipped.
func ran(s *Score) string {
	if s.Skip == "" {
		return "run"
	}
	return "skipped: " + s.Skip
}

func (r *Report) backend(name string) *Backend {
	for _, b := range r.Backends {
		if b.Name == name {
			return b
		}
	}
	return nil
}

func (b *Backend) scenario(name string) *Score {
	for _, s := range b.Scenarios {
		if s.Scenario == name {
			return s
		}
	}
	return nil
}

// difference prints the figures that differ. Figures that grow with the number of events are
// printed as shares.
func difference(w io.Writer, prefix string, a, b *score.Score) {
	print := func(name, x, y string) {
		if x != y {
			fmt.Fprintf(w, "%s%s\t%s\t%s\n", prefix, name, x, y)
		}
	}
	seen := func(s *score.Score) string {
		if s.Seen == s.Truth {
			return "all"
		}
		return fmt.Sprintf("%d of %d", s.Seen, s.Truth)
	}
	print("events seen", seen(a), seen(b))
	print("phantoms", fmt.Sprint(a.Phantoms), fmt.Sprint(b.Phantoms))
	print("duplicates", fmt.Sprint(a.Duplicates), fmt.Sprint(b.Duplicates))
	print("out of order", fmt.Sprint(a.Inversions), fmt.Sprint(b.Inversions))
	print("not joined", fmt.Sprint(a.Unjoined), fmt.Sprint(b.Unjoined))
	print("stamps", percent(a.Stamp), percent(b.Stamp))
	for f := range engine.Field(engine.NumFields) {
		print(f.String(), percent(a.Fields[f]), percent(b.Fields[f]))
	}
}
