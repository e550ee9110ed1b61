package command

import (
	"fmt"
	"io"

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

// Syntax is what a command's options do not tell of its arguments.
type Syntax struct {
	Usage  string            // printed above the options
	Words  []string          // that the first operand may be; completions have them
	Values map[string]Values // of the options that take one of a few
}

// Values are those that an option takes: one, or with Many several with commas between them.
type Values struct {
	List []string
	Many bool
}

// Parse adds -V and -h to the options and parses the arguments. If one of the two is given, Parse
// prints the version, or usage and the options, and shown is true.
func Parse(f *pflag.FlagSet, s Syntax, args []string, out io.Writer) (shown bool, err error) {
	version := f.BoolP("version", "V", false, "print the version")
	help := f.BoolP("help", "h", false, "print this help")
	if err := f.Parse(args); err != nil {
		return false, fmt.Errorf("%w (see %s -h)", err, f.Name())
	}
	switch {
	case *help:
		_, err = fmt.Fprintf(out, "%s%s", s.Usage, f.FlagUsages())
	case *version:
		_, err = fmt.Fprintf(out, "%s %s\n", f.Name(), Version())
	}
	return *help || *version, err
}
