package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

func main() {
	signal.Ignore(syscall.SIGPIPE) // a closed standard output is an error like any other
	err := run(os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, errUnresolved):
		os.Exit(1) // said by a U
	case err != nil && !errors.Is(err, syscall.EPIPE):
		fmt.Fprintf(os.Stderr, "quark-btf: %v\n", err)
		os.Exit(1)
	}
}

// errUnresolved says that a target was not found.
var errUnresolved = errors.New("a target was not found")

func run(args []string, out, errw io.Writer) error {
	o, err := parse(args, errw)
	switch {
	case err != nil:
		return err
	case o.help:
		return nil
	}
	w := bufio.NewWriter(out)
	switch {
	case o.version:
		fmt.Fprintf(w, "quark-btf %s\n", version())
	case o.diff:
		err = o.printDiff(w)
	case o.add:
		err = o.addKernel(w)
	case o.lookup != "":
		err = o.printLookup(w)
	default:
		err = o.printKernel(w, errw)
	}
	return errors.Join(w.Flush(), err)
}

// version is that of the module, or "(devel)".
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
