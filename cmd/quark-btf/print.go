package main

import (
	"fmt"
	"io"

	"github.com/quark-linux/quark/btfhub"
)

// printKernel prints the offsets in the kernel's types.
func (o *options) printKernel(w, errw io.Writer) error {
	k, err := o.kernel()
	if err != nil {
		return err
	}
	offsets, err := resolve(k.Spec, o.operands)
	if err != nil {
		return err
	}
	if o.verbose {
		fmt.Fprintf(errw, "quark-btf: types from %s\n", k.Origin)
	}
	return o.printOffsets(w, offsets)
}

// printOffsets returns errUnresolved if a target is missing.
func (o *options) printOffsets(w io.Writer, offsets *btfhub.Offsets) error {
	for _, t := range offsets.All() {
		fmt.Fprintf(w, "%s %s", t.Target.Name, o.number(t))
		if o.verbose {
			if t.Found() {
				fmt.Fprintf(w, " %s %d", t.Path, t.Size)
			} else {
				fmt.Fprintf(w, " (%v)", t.Err)
			}
		}
		fmt.Fprintln(w)
	}
	if offsets.Missing() != nil {
		return errUnresolved
	}
	return nil
}

// number returns a target's offset, with -b also in bits, or an enumerator's value.
func (o *options) number(t *btfhub.Offset) string {
	switch {
	case !t.Found():
		return "U"
	case t.Enum:
		return fmt.Sprint(t.Value)
	case o.bits:
		return fmt.Sprintf("%d %d", t.Bits/8, t.Bits)
	}
	return fmt.Sprint(t.Bits / 8)
}

// printLookup prints the archive's entry for a release.
func (o *options) printLookup(w io.Writer) error {
	a, err := o.archive()
	if err != nil {
		return err
	}
	e, err := a.Lookup(o.lookup, o.arch)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s %s %s\n", e.Release, e.Arch, e.Distro)
	if !o.verbose && len(o.operands) == 0 {
		return nil
	}
	spec, err := a.Types(e)
	if err != nil {
		return err
	}
	offsets, err := resolve(spec, o.operands)
	if err != nil {
		return err
	}
	return o.printOffsets(w, offsets)
}
