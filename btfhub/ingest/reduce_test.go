package ingest

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/quark-linux/quark/btfhub"
	"github.com/quark-linux/quark/internal/vmlinuz/vmlinuztest"
)

// objectNames returns the compiled programs of this repository.
func objectNames() []string {
	backends, _ := filepath.Glob("../../backends/*/programs_*_bpfel.o")
	others, _ := filepath.Glob("../../*/programs_*_bpfel.o")
	return append(backends, others...)
}

// TestMembersAreThoseOfThePrograms fails after a change of the eBPF programs
// until 'make btfhub' has been run.
func TestMembersAreThoseOfThePrograms(t *testing.T) {
	var all []string
	for name, data := range readObjects(t) {
		members, err := ProgramMembers(bytes.NewReader(data))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all = append(all, members...)
	}
	slices.Sort(all)
	want := slices.Compact(all)
	have := strings.Fields(programMembers)
	for _, m := range want {
		if !slices.Contains(have, m) {
			t.Errorf("members.txt lacks %s: run 'make btfhub'", m)
		}
	}
}

func readObjects(t *testing.T) map[string][]byte {
	t.Helper()
	names := objectNames()
	if len(names) == 0 {
		t.Skip("no compiled eBPF programs")
	}
	all := make(map[string][]byte)
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = data
	}
	return all
}

// TestReducedIsAsGood compares what the programs and the targets get from
// reduced types with what they get from the whole.
func TestReducedIsAsGood(t *testing.T) {
	specs := wholeKernels(t)
	var relos []*btf.CORERelocation
	for name, data := range readObjects(t) {
		c, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(data))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, p := range c.Programs {
			for i := range p.Instructions {
				if r := btf.CORERelocationMetadata(&p.Instructions[i]); r != nil {
					relos = append(relos, r)
				}
			}
		}
	}
	t.Logf("%d relocations", len(relos))
	for name, whole := range specs {
		t.Run(name, func(t *testing.T) {
			raw, err := Reduce(whole, Members())
			if err != nil {
				t.Fatal(err)
			}
			reduced, err := btf.LoadSpecFromReader(bytes.NewReader(raw))
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d bytes", len(raw))
			compareOffsets(t, btfhub.Resolve(whole), btfhub.Resolve(reduced))
			want, err := btf.CORERelocate(relos, []*btf.Spec{whole}, binary.LittleEndian, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := btf.CORERelocate(relos, []*btf.Spec{reduced}, binary.LittleEndian, nil)
			if err != nil {
				t.Fatal(err)
			}
			for i := range want {
				if want[i].String() != got[i].String() {
					t.Errorf("%v: %v, want %v", relos[i], got[i], want[i])
				}
			}
		})
	}
}

func compareOffsets(t *testing.T, want, got *btfhub.Offsets) {
	t.Helper()
	for w := range want.All() {
		g := got.Get(w.Target.Name)
		if g.Path != w.Path || g.Bits != w.Bits || g.Size != w.Size || g.Value != w.Value || g.Enum != w.Enum {
			t.Errorf("%s: got %+v, want %+v", w.Target.Name, *g, *w)
		}
	}
}

// wholeKernels returns the types of this host's kernel and of those fetched.
func wholeKernels(t *testing.T) map[string]*btf.Spec {
	specs := make(map[string]*btf.Spec)
	if data, err := os.ReadFile(btfhub.KernelBTF); err == nil {
		if specs["host"], err = btf.LoadSpecFromReader(bytes.NewReader(data)); err != nil {
			t.Fatal(err)
		}
	}
	for name, raw := range vmlinuztest.Types(t, "../../kernel_images") {
		var err error
		if specs[name], err = btf.LoadSpecFromReader(bytes.NewReader(raw)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if len(specs) == 0 {
		t.Skip("no kernel's types: neither this host's nor kernel images")
	}
	return specs
}
