package main

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/pflag"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/backends"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "quark-compare: %v\n", err)
		os.Exit(1)
	}
}

// deadline is for all backends to have reported the end of all commands.
const deadline = 30 * time.Second

func run(args []string) error {
	flags := pflag.NewFlagSet("quark-compare", pflag.ContinueOnError)
	flags.Usage = func() {}
	help := flags.BoolP("help", "h", false, "print this help")
	version := flags.BoolP("version", "V", false, "print the version")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("%w (see quark-compare -h)", err)
	}
	switch {
	case *help:
		fmt.Print("usage: quark-compare [-hV] [COMMAND...]\n\nRuns each COMMAND with sh -c, or a few of its own, and prints what each\n" +
			"backend saw of them. Needs root.\n\n" + flags.FlagUsages())
		return nil
	case *version:
		info, _ := debug.ReadBuildInfo()
		fmt.Println("quark-compare", info.Main.Version)
		return nil
	}
	witnesses, absent := openAll()
	if len(witnesses) == 0 {
		return errors.Join(absent...)
	}
	runs, err := observe(witnesses, commands(flags.Args()))
	if err != nil {
		return err
	}
	report(os.Stdout, witnesses, runs)
	for _, err := range absent {
		fmt.Printf("not compared: %v\n", err)
	}
	return nil
}

// openAll opens every backend that this host admits and says why it does not
// admit the others.
func openAll() (open []*witness, absent []error) {
	for _, name := range backends.All.Names() {
		set, _ := backends.Parse(name)
		q, err := quark.Open(quark.Options{Backends: set, Strict: true, HoldTime: 200 * time.Millisecond})
		var failed *backends.Error
		switch {
		case err == nil:
			open = append(open, newWitness(q))
		case errors.As(err, &failed):
			absent = append(absent, errors.New(failed.Attempts[0].String()))
		default:
			absent = append(absent, err)
		}
	}
	return open, absent
}
