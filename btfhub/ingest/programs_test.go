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
	"github.com/google/go-cmp/cmp"

	"github.com/quark-linux/quark/btfhub"
	"github.com/quark-linux/quark/internal/vmlinuz/vmlinuztest"
)

// objectNames returns the compiled programs of this repository.
func objectNames() []string {
	backends, _ := filepath.Glob("../../backends/*/programs_*bpfel.o")
	others, _ := filepath.Glob("../../*/programs_*bpfel.o")
	return append(backends, others...)
}

// TestMembersOfPrograms fails after a change of the eBPF programs until 'make btfhub' has been run.
func TestMembersOfPrograms(t *testing.T) {
	var all []string
	for name, data := range readObjects(t) {
		members, err := ProgramMembers(bytes.NewReader(data))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all = append(all, members...)
	}
	slices.Sort(all)
	file, err := os.ReadFile("../members.txt")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(slices.Compact(all), strings.Fields(string(file))); diff != "" {
		t.Errorf("btfhub/members.txt is not what 'make btfhub' writes:\n%s", diff)
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

// TestReducedTypesAreEquivalent compares relocations and targets from reduced types with those from
// the whole.
func TestReducedTypesAreEquivalent(t *testing.T) {
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
	for name, raw := range wholeKernels(t) {
		whole := specOf(t, raw)
		want, err := btf.CORERelocate(relos, []*btf.Spec{whole}, binary.LittleEndian, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			raw, err := btfhub.Reduce(whole, append(btfhub.Needed(), btfhub.IteratorMembers...))
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d bytes", len(raw))
			reduced := specOf(t, raw)
			compareOffsets(t, btfhub.Resolve(whole), btfhub.Resolve(reduced))
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

func specOf(t *testing.T, raw []byte) *btf.Spec {
	t.Helper()
	spec, err := btf.LoadSpecFromReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

func compareOffsets(t *testing.T, want, got *btfhub.Offsets) {
	t.Helper()
	for _, w := range want.All() {
		g := got.Get(w.Target.Name)
		if g.Path != w.Path || !g.Same(w) {
			t.Errorf("%s: got %+v, want %+v", w.Target.Name, *g, *w)
		}
	}
}

// wholeKernels returns the raw types of this host's kernel and of fetched ones.
func wholeKernels(t *testing.T) map[string][]byte {
	kernels := vmlinuztest.Types(t, "../../kernel_images")
	if raw, err := os.ReadFile(btfhub.KernelBTF); err == nil {
		kernels["host"] = raw
	}
	if len(kernels) == 0 {
		t.Skip("no kernel's types: neither this host's nor kernel images")
	}
	return kernels
}
