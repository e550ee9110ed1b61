package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/fidelity/bench"
	"github.com/quark-linux/quark/fidelity/monitor"
)

// benchmark measures backends and monitors, or prints benchmarks from files.
func benchmark(o *options, out, errw io.Writer) error {
	results, err := bench.ReadFiles(o.operands)
	if err != nil {
		return err
	}
	if len(o.operands) == 0 {
		r, err := o.measure(errw)
		if err != nil {
			return err
		}
		results = []*bench.Result{r}
	}
	err = bench.Print(out, results)
	if o.page != "" {
		err = errors.Join(err, writeTo(o.page, func(w io.Writer) error { return bench.Page(w, results) }))
	}
	return err
}

func (o *options) measure(errw io.Writer) (r *bench.Result, err error) {
	opts := bench.Options{Backends: o.run.Backends, Monitors: o.run.Monitors, Repeats: o.run.Repeats, For: o.fuzz.For, Quick: o.quick, Build: o.build}
	if opts.Backends == 0 && len(opts.Monitors) == 0 {
		opts.Backends, opts.Monitors = backends.Every, monitor.All()
	}
	began := time.Now()
	opts.Progress = func(step string) { fmt.Fprintf(errw, "%6.1f s  %s\n", time.Since(began).Seconds(), step) }
	if o.output != "" {
		f, err := os.OpenFile(o.output, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		opts.Out = f
	}
	return bench.Measure(opts)
}
