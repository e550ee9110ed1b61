// Command quark-btf prints the offsets of the members of the kernel's types that quark reads: from
// the running kernel's BTF, a file, or the archive in the binary. See docs/quark-btf.8.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/quark-linux/quark/internal/command"
)

func main() {
	signal.Ignore(syscall.SIGPIPE) // without the signal, a write to a closed pipe returns EPIPE
	err := run(os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, errUnresolved):
		os.Exit(1) // at least one target has the mark U
	case err != nil && !errors.Is(err, syscall.EPIPE):
		fmt.Fprintf(os.Stderr, "quark-btf: %v\n", err)
		os.Exit(1)
	}
}

// errUnresolved is returned when a target was not found.
var errUnresolved = errors.New("a target was not found")

func run(args []string, out, errw io.Writer) error {
	return command.Run(context.Background(), newCommand(func(o *options) (err error) {
		w := bufio.NewWriter(out)
		switch {
		case o.add:
			err = o.addKernel(w)
		case o.lookup != "":
			err = o.printLookup(w)
		default:
			err = o.printKernel(w, errw)
		}
		return errors.Join(w.Flush(), err)
	}), args, out)
}
