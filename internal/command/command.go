// Package command has what quark's commands share: the parsing of their options, help and version.
package command

import (
	"fmt"
	"io"
	"runtime/debug"

	"github.com/spf13/pflag"
)

// NewFlags returns an empty set of options, whose help is in the order of their definition.
func NewFlags(name string) *pflag.FlagSet {
	f := pflag.NewFlagSet(name, pflag.ContinueOnError)
	f.SortFlags = false
	f.SetOutput(io.Discard)
	f.Usage = func() {}
	return f
}

// Parse adds -V and -h to the options and parses the arguments. If one of the two is given, Parse
// prints the version, or usage and the options, and shown is true.
func Parse(f *pflag.FlagSet, usage string, args []string, out io.Writer) (shown bool, err error) {
	version := f.BoolP("version", "V", false, "print the version")
	help := f.BoolP("help", "h", false, "print this help")
	if err := f.Parse(args); err != nil {
		return false, fmt.Errorf("%w (see %s -h)", err, f.Name())
	}
	switch {
	case *help:
		_, err = fmt.Fprintf(out, "%s%s", usage, f.FlagUsages())
	case *version:
		_, err = fmt.Fprintf(out, "%s %s\n", f.Name(), Version())
	}
	return *help || *version, err
}

// Version returns the version of the main module, "(devel)" if the binary has none.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
