package main

import (
	"fmt"
	"io"

	"github.com/quark-linux/quark/btfhub"
)

// printDiff prints the targets that have different places in two kernels.
func (o *options) printDiff(w io.Writer) error {
	var both [2]*btfhub.Offsets
	for i, name := range o.operands {
		spec, err := o.named(name)
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
	for a := range both[0].All() {
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
