package ingest

import (
	_ "embed"
	"slices"
	"strings"

	"github.com/quark-linux/quark/btfhub"
)

// programMembers are the members that the eBPF programs relocate against, one
// TYPE.MEMBER[.MEMBER...] a line, or a type alone. 'make btfhub' writes the file
// from the compiled programs.
//
//go:embed members.txt
var programMembers string

// Members returns all that a reduced kernel keeps: what the eBPF programs of
// this version read, and what package btfhub has targets for.
func Members() []string { return MembersFor(strings.Fields(programMembers)) }

// MembersFor is as [Members] for programs that read other members.
func MembersFor(programs []string) []string {
	members := slices.Clone(programs)
	for _, t := range btfhub.Targets() {
		members = append(members, t.Alternatives...)
	}
	slices.Sort(members)
	return slices.Compact(members)
}
