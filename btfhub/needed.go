package btfhub

import (
	_ "embed"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"
)

// programMembers is the list of members that the eBPF programs relocate against. A line is
// TYPE.MEMBER[.MEMBER...] or a type. 'make btfhub' writes the file from the compiled programs.
//
//go:embed members.txt
var programMembers string

// Needed returns the members of the kernel's types that quark needs: those that the eBPF programs
// of this version relocate against, and the alternatives of the [Targets].
func Needed() []string { return NeededFor(strings.Fields(programMembers)) }

// Moved returns the [Needed] members that have different offsets in two kernels, or are in one of
// them only.
func Moved(x, y *btf.Spec) []string {
	var wanted []Target
	for _, m := range Needed() {
		if strings.Contains(m, ".") {
			wanted = append(wanted, Target{Name: m, Alternatives: []string{m}})
		}
	}
	return ResolveTargets(x, wanted).Moved(ResolveTargets(y, wanted))
}

// NeededFor is [Needed] for other programs, which relocate against these members.
func NeededFor(programs []string) []string {
	members := slices.Clone(programs)
	for _, t := range targets {
		members = append(members, t.Alternatives...)
	}
	slices.Sort(members)
	return slices.Compact(members)
}
