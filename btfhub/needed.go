package btfhub

import (
	_ "embed"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"
)

// programMembers are the members that the eBPF programs relocate against, one
// TYPE.MEMBER[.MEMBER...] a line, or a type alone. 'make btfhub' writes the file
// from the compiled programs.
//
//go:embed members.txt
var programMembers string

// Needed returns the members that quark reads of a kernel's types: what the eBPF
// programs of this version relocate against, and what the [Targets] are found by.
func Needed() []string { return NeededFor(strings.Fields(programMembers)) }

// Moved returns those of the [Needed] members that are not at the same place in two
// kernels' types, or only in one of them.
func Moved(x, y *btf.Spec) []string {
	var wanted []Target
	for _, m := range Needed() {
		if strings.Contains(m, ".") {
			wanted = append(wanted, Target{Name: m, Alternatives: []string{m}})
		}
	}
	return ResolveTargets(x, wanted).Moved(ResolveTargets(y, wanted))
}

// NeededFor is as [Needed] for programs that read other members.
func NeededFor(programs []string) []string {
	members := slices.Clone(programs)
	for _, t := range targets {
		members = append(members, t.Alternatives...)
	}
	slices.Sort(members)
	return slices.Compact(members)
}
