package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/quark-linux/quark/btfhub"
	"github.com/quark-linux/quark/btfhub/ingest"
)

// kernel returns the types of the file of -f, or else the types that quark would use.
func (o *options) kernel() (*btfhub.Kernel, error) {
	if o.file == "" {
		return btfhub.Open(btfhub.Options{Whole: true})
	}
	found, err := ingest.Read(o.file)
	if err != nil {
		return nil, err
	}
	return &btfhub.Kernel{Spec: found.Types, Origin: "file " + o.file, Exact: true}, nil
}

// archive returns the archive that -f names, or else the embedded one.
func (o *options) archive() (*btfhub.Archive, error) {
	if o.file == "" {
		return btfhub.Embedded()
	}
	return readArchive(o.file)
}

func readArchive(path string) (*btfhub.Archive, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	a, err := btfhub.ReadArchive(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return a, nil
}

// resolve looks up the operands, or all targets if there are no operands. An operand may also be a
// member that is not a target.
func resolve(spec *btf.Spec, operands []string) (*btfhub.Offsets, error) {
	all := btfhub.Targets()
	if len(operands) == 0 {
		return btfhub.ResolveTargets(spec, all), nil
	}
	var wanted []btfhub.Target
	for _, name := range operands {
		typ, member, _ := strings.Cut(name, ".")
		if typ == "" || member == "" {
			return nil, fmt.Errorf("target %q: want TYPE.MEMBER or ENUM.VALUE", name)
		}
		t := btfhub.Target{Name: name, Alternatives: []string{name}}
		for _, known := range all {
			if known.Name == name {
				// a target that the user names is not optional
				t = btfhub.Target{Name: name, Alternatives: known.Alternatives}
			}
		}
		wanted = append(wanted, t)
	}
	return btfhub.ResolveTargets(spec, wanted), nil
}
