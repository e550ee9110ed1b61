package main

import (
	"errors"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/quark-linux/quark/internal/command"
)

// options holds the options of the command line.
type options struct {
	arch      string
	archNamed bool // -a was given
	bits      bool
	add       bool
	file      string
	lookup    string
	verbose   bool
	operands  []string
}

// newCommand returns the command line, which calls run with its options.
func newCommand(run func(*options) error) *cobra.Command {
	o := new(options)
	c := command.New(&cobra.Command{
		Use: `quark-btf [-bv] [-f FILE] [TARGET...]
quark-btf -l VERSION [-bv] [-a ARCH] [-f ARCHIVE] [TARGET...]
quark-btf -g [-a ARCH] [-f FILE] ARCHIVE [NAME VERSION]`,
		Long: "Prints the offsets of all targets, or of the named targets, in the kernel's types.\nA missing target is printed as U.",
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, operands []string) error {
			o.operands = operands
			if err := o.check(c); err != nil {
				return err
			}
			return run(o)
		},
	})
	f := c.Flags()
	f.StringVarP(&o.arch, "arch", "a", runtime.GOARCH, "architecture of kernels in archives")
	f.BoolVarP(&o.bits, "bits", "b", false, "also print offsets in bits")
	f.VarP((*command.File)(&o.file), "file", "f", "use the types in a `file`: raw BTF, ELF with BTF, a kernel image, or an archive")
	f.BoolVarP(&o.add, "add", "g", false, "add the types to an archive file, as release VERSION of distribution NAME; default: the release in the file")
	f.StringVarP(&o.lookup, "lookup", "l", "", "look up release VERSION in the archive")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "print the origin of the types and the alternative found; with -l print the offsets")
	command.Complete(c, "arch", "amd64", "arm64")
	return c
}

// check returns an error if the options are invalid.
func (o *options) check(c *cobra.Command) error {
	changed := c.Flags().Changed
	o.archNamed = changed("arch")
	switch {
	case o.add && changed("lookup"):
		return errors.New("use only one of -g and -l (see quark-btf -h)")
	case o.add && len(o.operands) != 3 && len(o.operands) != 1:
		return errors.New("-g: needs one operand, or three: archive, distribution, release (see quark-btf -h)")
	case changed("lookup") && o.lookup == "":
		return errors.New("-l: the release is empty (see quark-btf -h)")
	}
	return nil
}
