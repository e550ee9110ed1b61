package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/signal"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/fidelity/soak"
)

// soakOptions are those of the command soak alone.
type soakOptions struct {
	every     time.Duration
	exporters []string
}

// errGrown is the error of a soak that has found something.
var errGrown = errors.New("something grew, or is unexplained: see GREW and UNEXPLAINED above")

// endure soaks, and says what grew.
func endure(o *options, out, errw io.Writer) error {
	opts := soak.Options{For: o.hunt.For, Every: o.soak.every, Seed: o.hunt.Seed, Backends: o.run.Backends, Progress: out}
	for _, text := range o.soak.exporters {
		e, err := soak.ParseExporter(text)
		if err != nil {
			return err
		}
		opts.Exporters = append(opts.Exporters, e)
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	fmt.Fprintf(errw, "soak --seed %d\n", o.hunt.Seed)
	r, err := soak.Run(ctx, opts)
	if r != nil {
		fmt.Fprintln(out, r)
		for _, a := range r.Absent {
			fmt.Fprintf(out, "not run: %s\n", a)
		}
		for _, backend := range slices.Sorted(maps.Keys(r.Lies)) {
			list := r.Lies[backend]
			fmt.Fprintf(out, "LIES of %s, which quark-fidelity hunt --backend %s looks for, the first:\n", backend, backend)
			for _, text := range list[:min(4, len(list))] {
				fmt.Fprintf(out, "  %s\n", text)
			}
		}
		for _, text := range r.Findings {
			fmt.Fprintf(out, "UNEXPLAINED: %s\n", text)
		}
		for _, text := range r.Grown {
			fmt.Fprintf(out, "GREW: %s\n", text)
		}
	}
	if err != nil {
		return err
	}
	if !r.Good() {
		return errGrown
	}
	fmt.Fprintln(out, "nothing grew, nothing is unexplained")
	return nil
}
