package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/quark-linux/quark/engine"
)

// report prints a table a command, a column a witness.
func report(out io.Writer, witnesses []*witness, cmds []*command) {
	for _, c := range cmds {
		fmt.Fprintf(out, "$ %s   (pid %d)\n", c.line, c.pid)
		columns := []map[string]string{c.truth()}
		w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
		fmt.Fprint(w, "  \ttruth")
		for _, b := range witnesses {
			fmt.Fprintf(w, "\t%s", b.q.Backend())
			columns = append(columns, b.seen[c.pid].describe())
		}
		fmt.Fprintln(w)
		for _, a := range attributes {
			fmt.Fprintf(w, "  %s", a)
			for i, col := range columns {
				v, ok := col[a]
				if !ok && i > 0 {
					v = "not seen"
				}
				fmt.Fprintf(w, "\t%s", v)
			}
			fmt.Fprintln(w)
		}
		w.Flush()
		fmt.Fprintln(out)
	}
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "backend\traw events\tdelivered\tlost\tfields of the commands known")
	for _, b := range witnesses {
		var known, all int
		for _, c := range cmds {
			if a := b.seen[c.pid]; a != nil {
				for f := range engine.Field(engine.NumFields) {
					if a.last.Known.Has(f) {
						known++
					}
				}
			}
			all += engine.NumFields
		}
		s := &b.stats
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d of %d\n", s.Backend, s.Insertions, s.Aggregations+s.NonAggregations, s.Lost(), known, all)
	}
	w.Flush()
}
