package main

import (
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/quark-linux/quark/fidelity/bench"
	"github.com/quark-linux/quark/fidelity/scenario"
)

// Slow machines run fewer processes in the filter experiment than was published, so that it takes
// at most about exitsLength.
const (
	exitsLength = 20 * time.Second
	patience    = 2 * time.Minute
)

// benchmark measures quark's backends next to other programs.
func benchmark(o *options, out, errw io.Writer) error {
	monitors, absent := bench.Monitors(o.run.Backends)
	progress := func(what string) {
		if o.verbose {
			fmt.Fprintln(errw, what)
		}
	}
	results, err := bench.Run(bench.Options{
		Monitors: monitors,
		Modes:    []scenario.Mode{scenario.ForkExit, scenario.ForkExecExit, scenario.Threads, scenario.Exits},
		Rates:    []int{1000, 2000, 4000, 8000, 16000}, Length: time.Second, Patience: patience, Progress: progress,
	})
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "mode\trate\tmonitor\tdone/s\tCPU each\tworkload\tpeak memory\tlost")
	for _, r := range results {
		lost := fmt.Sprint(r.Lost)
		if r.Silent {
			lost = "not counted"
		}
		rate := fmt.Sprintf("%d/s", r.Rate)
		if r.Rate == 0 {
			rate = "all"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%.0f\t%.1f us\t%.2f x\t%.0f MiB\t%s\n", r.Mode, rate, r.Monitor, r.Offered, float64(r.CPU)/1e3, r.Slow,
			float64(r.RSS)/1024, lost)
	}
	w.Flush()
	for _, err := range absent {
		fmt.Fprintf(out, "not measured: %v\n", err)
	}
	return experiment(out, progress)
}

// experiment measures the proc connector's filter.
func experiment(out io.Writer, progress func(string)) error {
	dir, err := os.MkdirTemp("", "quark-fidelity-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	top, err := bench.Top(scenario.ForkExecExit, patience)
	if err != nil {
		return err
	}
	n := min(bench.Published, int(top*exitsLength.Seconds()))
	progress("the proc connector's filter")
	list, err := bench.Experiment(dir, n, func(float64) {})
	if err != nil {
		fmt.Fprintf(out, "\nnot measured: %v\n", err)
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	bench.PrintExperiment(w, n, list)
	return w.Flush()
}
