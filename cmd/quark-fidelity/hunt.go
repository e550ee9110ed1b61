package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/fidelity/hunt"
)

// errLie is the error of a hunt that has found something, and of a script that shows it again.
var errLie = errors.New("a backend lied: see LIE above")

// search hunts until the first lie.
func search(o *options, out, errw io.Writer) error {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	fmt.Fprintf(errw, "hunt --seed %d\n", o.hunt.Seed)
	o.hunt.Progress = errw
	r, err := hunt.Run(ctx, o.hunt)
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
		printLie(out, f.Backend, f.Again, f.Of, f.Findings)
		fmt.Fprintf(out, "run it again: quark-fidelity run --backend %s -n %d %s\n", f.Backend, f.Of, f.Path)
		return errLie
	}
	return nil
}

func printLie(out io.Writer, backend string, n, of int, findings []string) {
	fmt.Fprintf(out, "LIE of %s, in %d of %d performances\n", backend, n, of)
	for _, text := range findings {
		fmt.Fprintf(out, "  %s\n", text)
	}
}

// again performs scripts that a hunt has written.
func again(o *options, out io.Writer) (err error) {
	for _, path := range o.operands {
		list, err2 := hunt.Rerun([]string{path}, o.run.Repeats, o.hunt)
		if err2 != nil {
			return err2
		}
		r := list[0]
		for backend, n := range r.Lies {
			printLie(out, backend, n, o.run.Repeats, r.Findings[backend])
			err = errLie
		}
		fmt.Fprintf(out, "%s: %d performances, %d backends lied\n", path, o.run.Repeats, len(r.Lies))
		for _, a := range r.Absent {
			fmt.Fprintf(out, "not run: %s\n", a)
		}
	}
	return err
}
