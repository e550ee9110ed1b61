package main

import (
	"fmt"
	"io"

	"github.com/quark-linux/quark/btfhub"
)

// printLookup prints the kernel of the archive that is used for a release.
func (o *options) printLookup(w io.Writer) error {
	a, err := o.archive()
	if err != nil {
		return err
	}
	e, exact, err := a.Lookup(o.lookup, o.arch)
	if err != nil {
		return err
	}
	var offsets *btfhub.Offsets
	if o.verbose || len(o.operands) > 0 {
		spec, err := a.Types(e)
		if err != nil {
			return err
		}
		if offsets, err = resolve(spec, o.operands); err != nil {
			return err
		}
	}
	if o.json {
		j := struct {
			Wanted  string   `json:"wanted"`
			Release string   `json:"release"`
			Arch    string   `json:"arch"`
			Distro  string   `json:"distro"`
			Exact   bool     `json:"exact"`
			Targets []target `json:"targets,omitempty"`
		}{o.lookup, e.Release, e.Arch, e.Distro, exact, nil}
		if offsets != nil {
			j.Targets = o.targets(offsets)
		}
		err = printJSON(w, j)
	} else {
		how := "guess"
		if exact {
			how = "exact"
		}
		fmt.Fprintf(w, "%s %s %s %s\n", e.Release, e.Arch, e.Distro, how)
		if offsets != nil {
			o.printOffsets(w, offsets)
		}
	}
	if err == nil && offsets != nil && offsets.Missing() != nil {
		err = errUnresolved
	}
	return err
}
