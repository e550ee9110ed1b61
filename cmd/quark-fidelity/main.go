// Command quark-fidelity compares the events of each backend with the ground truth that scenarios
// record.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/quark-linux/quark/fidelity"
	"github.com/quark-linux/quark/fidelity/fuzz"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/internal/command"
	"github.com/quark-linux/quark/internal/report"
)

func main() {
	fuzz.Main()
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintf(os.Stderr, "quark-fidelity: %v\n", err)
		os.Exit(1)
	}
}

// errDefects reports that a printed report has defects.
var errDefects = errors.New("a backend differs from its capability table: see DEFECT above")

func run(args []string, out, errw io.Writer) error {
	return command.Run(context.Background(), newCommand(out, errw), args, out)
}

func list(out io.Writer) error {
	t := new(report.Table)
	for _, s := range scenario.All() {
		t.Add(s.Name, s.Doc)
	}
	return t.WriteText(out)
}

func runScenarios(o *options, out, errw io.Writer) error {
	began := time.Now()
	o.run.Progress = func(what string) {
		if o.verbose {
			fmt.Fprintf(errw, "%6.1f s  %s\n", time.Since(began).Seconds(), what)
		}
	}
	r, err := fidelity.RunScenarios(o.run)
	if err != nil {
		return err
	}
	r.Print(out)
	if o.output != "" {
		err = r.Append(o.output)
	}
	if o.page != "" {
		err = errors.Join(err, writePage(o.page, r))
	}
	if err == nil && len(r.Defects()) > 0 {
		return errDefects
	}
	return err
}

func readAll(paths []string) (list []*fidelity.Report, err error) {
	for _, p := range paths {
		some, err := fidelity.Read(p)
		if err != nil {
			return nil, err
		}
		list = append(list, some...)
	}
	return list, nil
}

func showReports(o *options, out io.Writer) error {
	list, err := readAll(o.operands)
	if err != nil {
		return err
	}
	defects := false
	for _, r := range list {
		r.Print(out)
		fmt.Fprintln(out)
		defects = defects || len(r.Defects()) > 0
	}
	if o.page != "" {
		if err := writePage(o.page, list...); err != nil {
			return err
		}
	}
	if defects {
		return errDefects
	}
	return nil
}

func writePage(path string, list ...*fidelity.Report) error {
	return writeTo(path, func(w io.Writer) error { return fidelity.Page(w, list) })
}

func writeTo(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
