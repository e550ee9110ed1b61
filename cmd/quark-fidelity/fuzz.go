package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/fidelity/fuzz"
)

// errFuzzed reports that a script has shown a defect.
var errFuzzed = errors.New("a backend has a defect: see DEFECT above")

// errGrown reports that the resident monitor leaks.
var errGrown = errors.New("the resident monitor leaks: see GREW above")

// fuzzBackends runs generated scripts until the first defect.
func fuzzBackends(o *options, out, errw io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	fmt.Fprintf(errw, "fuzz --seed %d\n", o.fuzz.Seed)
	o.fuzz.Progress = errw
	r, err := fuzz.Run(ctx, o.fuzz)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, r)
	for _, a := range r.Absent {
		fmt.Fprintf(out, "not run: %s\n", a)
	}
	if missed := r.Missed(); len(missed) > 0 {
		fmt.Fprintf(out, "not exercised: %s\n", strings.Join(missed, ", "))
	}
	if f := r.Found; f != nil {
		printDefect(out, f.Backend, f.Again, f.Of, f.Findings)
		fmt.Fprintf(out, "run it again: quark-fidelity run --%s -n %d %s\n", f.Backend, f.Of, f.Path)
		return errFuzzed
	}
	for _, text := range r.Grown {
		fmt.Fprintf(out, "GREW: %s\n", text)
	}
	if len(r.Grown) > 0 {
		return errGrown
	}
	return nil
}

func printDefect(out io.Writer, backend string, n, of int, findings []string) {
	fmt.Fprintf(out, "DEFECT of %s, in %d of %d runs\n", backend, n, of)
	for _, text := range findings {
		fmt.Fprintf(out, "  %s\n", text)
	}
}

// rerun runs scripts that fuzz has written.
func rerun(o *options, out io.Writer) (err error) {
	for _, path := range o.operands {
		list, err2 := fuzz.Rerun([]string{path}, o.run.Repeats, o.fuzz)
		if err2 != nil {
			return err2
		}
		r := list[0]
		for backend, n := range r.Defects {
			printDefect(out, backend, n, o.run.Repeats, r.Findings[backend])
			err = errFuzzed
		}
		fmt.Fprintf(out, "%s: %d runs, %d backends with a defect\n", path, o.run.Repeats, len(r.Defects))
		for _, a := range r.Absent {
			fmt.Fprintf(out, "not run: %s\n", a)
		}
	}
	return err
}
