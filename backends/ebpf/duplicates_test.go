package ebpf

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/quark-linux/quark/btfhub"
)

// TestDuplicatedTypes reads types with three copies of each struct: the original, one with the same
// members, and one with other members. Some distributions' kernels have hundreds of such copies.
// They must change no relocation and make no field unknown.
func TestDuplicatedTypes(t *testing.T) {
	a, err := btfhub.Embedded()
	if err != nil {
		t.Fatal(err)
	}
	plain, err := a.Types(a.Kernels()[0])
	if err != nil {
		t.Fatal(err)
	}
	var types []btf.Type
	copies := 0
	for typ, err := range plain.All() {
		if err != nil {
			t.Fatal(err)
		}
		types = append(types, typ)
		if s, ok := typ.(*btf.Struct); ok && s.Name != "" {
			same, other := *s, *s
			other.Members = []btf.Member{{Name: "of_another_file", Type: &btf.Int{Name: "long", Size: 8}}}
			types = append(types, &same, &other)
			copies++
		}
	}
	if copies < 30 {
		t.Fatalf("got %d copied structs, want at least 30", copies)
	}
	b, err := btf.NewBuilder(types, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := b.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "types.btf")
	if err := os.WriteFile(file, raw, 0o644); err != nil {
		t.Fatal(err)
	}
	k, err := btfhub.Open(btfhub.Options{Path: file})
	if err != nil {
		t.Fatal(err)
	}
	if node := new(btf.Struct); k.Spec.TypeByName("kernfs_node", &node) == nil {
		t.Error("got only one struct kernfs_node, want several")
	}
	for _, f := range fieldSources {
		if want, got := missingMember(plain, f.needs), missingMember(k.Spec, f.needs); got != want {
			t.Errorf("%v: missing %q, want %q", f.field, got, want)
		}
	}
	if moved := btfhub.Moved(plain, k.Spec); moved != nil {
		t.Errorf("offsets changed or missing: %q", moved)
	}
	spec, err := ebpf.LoadCollectionSpecFromReader(strings.NewReader(object))
	if err != nil {
		t.Fatal(err)
	}
	relocated := 0
	for name, p := range spec.Programs {
		if p.AttachType == ebpf.AttachTraceIter {
			continue // needs the running kernel's own types
		}
		var relos []*btf.CORERelocation
		for i := range p.Instructions {
			if r := btf.CORERelocationMetadata(&p.Instructions[i]); r != nil {
				relos = append(relos, r)
			}
		}
		relocated += len(relos)
		want, err := relocate(relos, plain)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got, err := relocate(relos, k.Spec); err != nil || got != want {
			t.Errorf("%s: got relocation %s, error %v; want %s", name, got, err, want)
		}
	}
	t.Logf("%d structs occur three times, %d relocations", copies, relocated)
	if relocated == 0 {
		t.Error("got no relocation")
	}
}

func relocate(relos []*btf.CORERelocation, types *btf.Spec) (string, error) {
	fixups, err := btf.CORERelocate(relos, []*btf.Spec{types}, binary.LittleEndian, func(btf.Type) (btf.TypeID, error) { return 1, nil })
	return fmt.Sprint(fixups), err
}
