package main

import (
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/pflag"
)

// options are the command line.
type options struct {
	arch          string
	bits          bool
	diff, add     bool
	file          string
	lookup        string
	json          bool
	verbose       bool
	version, help bool
	operands      []string
}

func newFlags(o *options, errw io.Writer) *pflag.FlagSet {
	f := pflag.NewFlagSet("quark-btf", pflag.ContinueOnError)
	f.SortFlags = false
	f.SetOutput(errw)
	f.StringVarP(&o.arch, "arch", "a", runtime.GOARCH, "architecture of kernels in archives")
	f.BoolVarP(&o.bits, "bits", "b", false, "also print offsets in bits")
	f.BoolVarP(&o.diff, "diff", "d", false, "print what differs between two kernels, files or releases in the archive")
	f.StringVarP(&o.file, "file", "f", "", "use the types in a file: raw BTF, ELF, a kernel image or an archive")
	f.BoolVarP(&o.add, "add", "g", false, "add the types to an archive file as release VERSION of distribution NAME")
	f.BoolVarP(&o.json, "json", "j", false, "print JSON")
	f.StringVarP(&o.lookup, "lookup", "l", "", "print which kernel in the archive stands for release VERSION")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "say where the types are from and which alternative was found; with -l print the offsets")
	f.BoolVarP(&o.version, "version", "V", false, "print the version")
	f.BoolVarP(&o.help, "help", "h", false, "print this help")
	f.Usage = func() {}
	return f
}

const usage = `usage: quark-btf [-bjv] [-f FILE] [TARGET...]
       quark-btf -l VERSION [-bjv] [-a ARCH] [-f ARCHIVE] [TARGET...]
       quark-btf -d [-bj] [-a ARCH] A B
       quark-btf -g [-a ARCH] [-f FILE] ARCHIVE NAME VERSION

Prints the offset of every target in the kernel's types, or of those named.
What is not found is printed as U.

`

func parse(args []string, errw io.Writer) (*options, error) {
	o := new(options)
	f := newFlags(o, errw)
	if err := f.Parse(args); err != nil {
		return nil, fmt.Errorf("%w (see quark-btf -h)", err)
	}
	if o.help {
		fmt.Fprintf(errw, "%s%s", usage, f.FlagUsages())
		return o, nil
	}
	o.operands = f.Args()
	switch modes := count(o.diff, o.add, f.Changed("lookup")); {
	case modes > 1:
		return nil, errors.New("of -d, -g and -l only one is possible (see quark-btf -h)")
	case o.diff && (len(o.operands) != 2 || f.Changed("file")):
		return nil, errors.New("-d: two operands and no -f are wanted: files or releases (see quark-btf -h)")
	case o.add && len(o.operands) != 3:
		return nil, errors.New("-g: three operands are wanted: archive, name of the distribution, release (see quark-btf -h)")
	case f.Changed("lookup") && o.lookup == "":
		return nil, errors.New("-l: the release is empty (see quark-btf -h)")
	case f.Changed("file") && o.file == "":
		return nil, errors.New("-f: the file's name is empty (see quark-btf -h)")
	}
	return o, nil
}

func count(set ...bool) (n int) {
	for _, s := range set {
		if s {
			n++
		}
	}
	return n
}
