// Package command has what quark's commands share: the parsing of their options, help and version.
package command

import (
	"fmt"
	"io"
	"runtime/debug"
	"strings"

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

// group is the annotation of an option with the title of its group.
const group = "group"

// Group adds the options that define defines, with a title above them in the help.
func Group(f *pflag.FlagSet, title string, define func(*pflag.FlagSet)) {
	g := NewFlags(title)
	define(g)
	g.VisitAll(func(o *pflag.Flag) { o.Annotations = map[string][]string{group: {title}} })
	f.AddFlagSet(g)
}

// options returns the help of the options: those of a group below its title.
func options(f *pflag.FlagSet) string {
	var titles []string
	sets := make(map[string]*pflag.FlagSet)
	f.VisitAll(func(o *pflag.Flag) {
		title := "Other"
		if g := o.Annotations[group]; g != nil {
			title = g[0]
		}
		if sets[title] == nil {
			titles, sets[title] = append(titles, title), NewFlags(title)
		}
		sets[title].AddFlag(o)
	})
	if len(titles) == 1 {
		return f.FlagUsages()
	}
	var b strings.Builder
	for i, title := range titles {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(title + ":\n" + sets[title].FlagUsagesWrapped(helpWidth))
	}
	return b.String()
}

// helpWidth is the width of help in groups.
const helpWidth = 100

// Syntax is what a command's options do not tell of its arguments.
type Syntax struct {
	Usage  string            // printed above the options
	Words  []string          // that the first operand may be; completions have them
	Values map[string]Values // of the options that take one of a few
}

// Parse adds -V and -h to the options and parses the arguments. If one of the two is given, Parse
// prints the version, or usage and the options, and shown is true. So it is with the operands
// "completion SHELL", for which Parse prints what makes that shell complete the options.
func Parse(f *pflag.FlagSet, s Syntax, args []string, out io.Writer) (shown bool, err error) {
	version := f.BoolP("version", "V", false, "print the version")
	help := f.BoolP("help", "h", false, "print this help")
	if err := f.Parse(args); err != nil {
		return false, fmt.Errorf("%w (see %s -h)", err, f.Name())
	}
	switch {
	case *help:
		_, err = fmt.Fprintf(out, "%s%s", s.Usage, options(f))
	case *version:
		_, err = fmt.Fprintf(out, "%s %s\n", f.Name(), Version())
	case f.Arg(0) == completion:
		return true, printCompletion(f, s, f.Args()[1:], out)
	}
	return *help || *version, err
}

// version is that of a release: the linker sets it, as the build of a release does not depend on
// where the source was (-X in packaging/build.mk).
var version string

// Version returns the version of a release, or that of the main module, "(devel)" if the binary has
// neither.
func Version() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
