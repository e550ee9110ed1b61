package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/quark-linux/quark/btfhub"
)

// target is the JSON form of a target. Members with unknown values are omitted.
type target struct {
	Name   string  `json:"name"`
	Found  bool    `json:"found"`
	Path   string  `json:"path,omitempty"`   // the member path that was found
	Offset *uint64 `json:"offset,omitempty"` // bytes
	Bits   *uint64 `json:"bits,omitempty"`   // only with -b
	Size   *uint32 `json:"size,omitempty"`   // bytes
	Value  *int64  `json:"value,omitempty"`  // value of an enumerator
	Reason string  `json:"reason,omitempty"` // reason why the target is missing
}

func (o *options) target(t *btfhub.Offset) target {
	j := target{Name: t.Target.Name, Found: t.Found(), Path: t.Path}
	switch {
	case !t.Found():
		j.Reason = t.Err.Error()
	case t.Enum:
		j.Value = &t.Value
	default:
		bytes := t.Bits / 8
		j.Offset, j.Size = &bytes, &t.Size
		if o.bits {
			j.Bits = &t.Bits
		}
	}
	return j
}

func (o *options) targets(offsets *btfhub.Offsets) []target {
	all := []target{}
	for _, t := range offsets.All() {
		all = append(all, o.target(t))
	}
	return all
}

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
	if o.json {
		err = printJSON(w, struct {
			Origin  string   `json:"origin"`
			Targets []target `json:"targets"`
		}{k.Origin, o.targets(offsets)})
	} else {
		if o.verbose {
			fmt.Fprintf(errw, "quark-btf: types from %s\n", k.Origin)
		}
		o.printOffsets(w, offsets)
	}
	if err == nil && offsets.Missing() != nil {
		err = errUnresolved
	}
	return err
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

func (o *options) printOffsets(w io.Writer, offsets *btfhub.Offsets) {
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
			Release string   `json:"release"`
			Arch    string   `json:"arch"`
			Distro  string   `json:"distro"`
			Targets []target `json:"targets,omitempty"`
		}{e.Release, e.Arch, e.Distro, nil}
		if offsets != nil {
			j.Targets = o.targets(offsets)
		}
		err = printJSON(w, j)
	} else {
		fmt.Fprintf(w, "%s %s %s\n", e.Release, e.Arch, e.Distro)
		if offsets != nil {
			o.printOffsets(w, offsets)
		}
	}
	if err == nil && offsets != nil && offsets.Missing() != nil {
		err = errUnresolved
	}
	return err
}

// printDiff prints the targets whose offset or size differs between two kernels.
func (o *options) printDiff(w io.Writer) error {
	var both [2]*btfhub.Offsets
	for i, name := range o.operands {
		spec, err := o.typesOf(name)
		if err != nil {
			return err
		}
		both[i] = btfhub.Resolve(spec)
	}
	type pair struct {
		A target `json:"a"`
		B target `json:"b"`
	}
	moved := []pair{}
	for _, a := range both[0].All() {
		b := both[1].Get(a.Target.Name)
		if a.Same(b) {
			continue
		}
		if o.json {
			moved = append(moved, pair{o.target(a), o.target(b)})
			continue
		}
		fmt.Fprintf(w, "%s %s %s", a.Target.Name, o.number(a), o.number(b))
		if a.Found() && b.Found() && a.Size != b.Size {
			fmt.Fprintf(w, " (size %d %d)", a.Size, b.Size)
		}
		fmt.Fprintln(w)
	}
	if o.json {
		return printJSON(w, moved)
	}
	return nil
}
