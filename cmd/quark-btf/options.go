package main

import (
	"errors"
	"io"
	"runtime"

	"github.com/spf13/pflag"

	"github.com/quark-linux/quark/internal/command"
)

// options are the command line.
type options struct {
	arch      string
	archNamed bool // arch is not the default
	bits      bool
	diff, add bool
	file      string
	lookup    string
	json      bool
	verbose   bool
	operands  []string
}

func newFlags(o *options) *pflag.FlagSet {
	f := command.NewFlags("quark-btf")
	f.StringVarP(&o.arch, "arch", "a", runtime.GOARCH, "architecture of kernels in archives")
	f.BoolVarP(&o.bits, "bits", "b", false, "also print offsets in bits")
	f.BoolVarP(&o.diff, "diff", "d", false, "print what differs between two kernels, files or releases in the archive")
	f.StringVarP(&o.file, "file", "f", "", "use the types in a `file`: raw BTF, ELF with BTF, a kernel image, or an archive")
	f.BoolVarP(&o.add, "add", "g", false, "add the types to an archive file as release VERSION of distribution NAME; without these as what the file says")
	f.BoolVarP(&o.json, "json", "j", false, "print JSON")
	f.StringVarP(&o.lookup, "lookup", "l", "", "look up release VERSION in the archive")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "say where the types are from and which alternative was found; with -l print the offsets")
	return f
}

const usage = `usage: quark-btf [-bjv] [-f FILE] [TARGET...]
       quark-btf -l VERSION [-bjv] [-a ARCH] [-f ARCHIVE] [TARGET...]
       quark-btf -d [-bj] [-a ARCH] A B
       quark-btf -g [-a ARCH] [-f FILE] ARCHIVE [NAME VERSION]
       quark-btf completion bash|zsh|fish

Prints the offset of every target in the kernel's types, or of those named.
What is not found is printed as U.

`

// values are those of the options that take one of a few.
var values = map[string]command.Values{"arch": {List: []string{"amd64", "arm64"}}}

// parse returns the options of a command line, or nil if help or the version was printed instead.
func parse(args []string, out io.Writer) (*options, error) {
	o := new(options)
	f := newFlags(o)
	if shown, err := command.Parse(f, command.Syntax{Usage: usage, Values: values}, args, out); shown || err != nil {
		return nil, err
	}
	o.operands, o.archNamed = f.Args(), f.Changed("arch")
	switch modes := count(o.diff, o.add, f.Changed("lookup")); {
	case modes > 1:
		return nil, errors.New("of -d, -g and -l only one is possible (see quark-btf -h)")
	case o.diff && (len(o.operands) != 2 || f.Changed("file")):
		return nil, errors.New("-d: two operands and no -f are wanted: files or releases (see quark-btf -h)")
	case o.add && len(o.operands) != 3 && len(o.operands) != 1:
		return nil, errors.New("-g: one operand or three are wanted: archive, name of the distribution, release (see quark-btf -h)")
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
