package ebpf

import (
	"testing"

	"github.com/cilium/ebpf/btf"
)

// The types of some kernels have two structs with the same name. Only one of the two has the
// member.
func TestMissingMember(t *testing.T) {
	long := &btf.Int{Name: "long", Size: 8}
	node := func(member string) *btf.Struct {
		return &btf.Struct{Name: "node", Size: 8, Members: []btf.Member{{Name: member, Type: long}}}
	}
	builder, err := btf.NewBuilder([]btf.Type{node("other"), node("parent")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	types, err := builder.Spec()
	if err != nil {
		t.Fatal(err)
	}
	for needs, want := range map[string]string{
		"":                          "",
		"node.parent":               "",
		"node.other":                "",
		"none.parent|node.parent":   "",
		"node.__parent":             "node.__parent",
		"node.__parent|none.parent": "node.__parent and no none.parent",
	} {
		if got := missingMember(types, needs); got != want {
			t.Errorf("%s: missing %q, want %q", needs, got, want)
		}
	}
}
