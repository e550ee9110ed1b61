package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/fidelity/league"
	"github.com/quark-linux/quark/fidelity/monitor"
)

// leagueOptions are those of the command league alone.
type leagueOptions struct {
	quick         bool
	csv, markdown string
}

// compete measures a league, or shows the ones in files.
func compete(o *options, out, errw io.Writer) error {
	runs, err := league.ReadFiles(o.operands)
	if err != nil {
		return err
	}
	if len(o.operands) == 0 {
		r, err := o.measure(errw)
		if err != nil {
			return err
		}
		runs = []*league.Run{r}
	}
	err = league.Print(out, runs)
	if o.league.csv != "" {
		err = errors.Join(err, writeTo(o.league.csv, func(w io.Writer) error { return league.CSV(w, runs) }))
	}
	if o.league.markdown != "" {
		err = errors.Join(err, writeTo(o.league.markdown, func(w io.Writer) error { return league.Markdown(w, runs) }))
	}
	if o.page != "" {
		err = errors.Join(err, writeTo(o.page, func(w io.Writer) error { return league.Page(w, runs) }))
	}
	return err
}

// measure measures a league on this machine.
func (o *options) measure(errw io.Writer) (r *league.Run, err error) {
	opts := league.Options{
		Backends: o.run.Backends, Monitors: o.run.Monitors, Repeats: o.run.Repeats, For: o.fuzz.For, Quick: o.league.quick,
	}
	if opts.Backends == 0 && len(opts.Monitors) == 0 {
		opts.Backends, opts.Monitors = backends.Every, monitor.All()
	}
	began := time.Now()
	opts.Progress = func(what string, left time.Duration) {
		text := ""
		if left > 0 {
			text = fmt.Sprintf(", about %v left", left.Round(time.Second))
		}
		fmt.Fprintf(errw, "%6.1f s  %s%s\n", time.Since(began).Seconds(), what, text)
	}
	if o.output != "" {
		f, err := os.OpenFile(o.output, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		opts.Out = f
	}
	return league.Measure(opts)
}
