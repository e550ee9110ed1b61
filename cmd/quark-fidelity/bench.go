package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/quark-linux/quark/fidelity/bench"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/internal/tinyelf"
)

// exits is how many processes end in the experiment with filters, as published.
const exits = 8000

// benchmark measures quark's backends next to other programs.
func benchmark(o *options, out, errw io.Writer) error {
	monitors, absent := bench.Monitors()
	progress := func(what string) {
		if o.verbose {
			fmt.Fprintln(errw, what)
		}
	}
	results, err := bench.Run(bench.Options{
		Monitors: monitors,
		Modes:    []scenario.Mode{scenario.ForkExit, scenario.ForkExecExit, scenario.Threads},
		Rates:    []int{1000, 2000, 0}, Length: time.Second, Patience: 2 * time.Minute, Progress: progress,
	})
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "mode\toffered/s\tmonitor\tCPU each\tworkload\tpeak memory\tlost")
	for _, r := range results {
		lost := fmt.Sprint(r.Lost)
		if r.Silent {
			lost = "not counted"
		}
		fmt.Fprintf(w, "%s\t%.0f\t%s\t%.1f us\t%.2f x\t%.0f MiB\t%s\n", r.Mode, r.Offered, r.Monitor, float64(r.CPU)/1e3, r.Slow,
			float64(r.RSS)/1024, lost)
	}
	w.Flush()
	for _, err := range absent {
		fmt.Fprintf(out, "not measured: %v\n", err)
	}
	return experiment(out, progress)
}

// experiment is that of the proc connector's filter.
func experiment(out io.Writer, progress func(string)) error {
	dir, err := os.MkdirTemp("", "quark-fidelity-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "crowd")
	if err := tinyelf.Write(path, 0); err != nil {
		return err
	}
	progress("the proc connector's filter")
	list, err := bench.Experiment(path, exits)
	if err != nil {
		fmt.Fprintf(out, "\nnot measured: %v\n", err)
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintf(w, "\nof %d processes, proc connector, learning of\tCPU of the listener\tmessages\tpublished\n", exits)
	for i, f := range list {
		fmt.Fprintf(w, "%s\t%.0f ms\t%d\t%s\n", f.Way, float64(f.CPU)/1e6, f.Messages, []string{"70 ms", "150 ms", "200 ms", "200 ms"}[i])
	}
	return w.Flush()
}
