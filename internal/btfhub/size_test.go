package btfhub

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cilium/ebpf/btf"
)

// maxEmbedded is the documented limit of an archive in the binary.
const maxEmbedded = 512 << 10

// TestThousandKernels builds an archive of 1,000 kernels of many distributions. Each of 50 series
// has all offsets different from the others, as with another configuration and source. In each of
// its 20 releases up to 12 members have moved since the previous one, more than between the
// releases of a distribution in the embedded archive, which are mostly equal.
func TestThousandKernels(t *testing.T) {
	a, err := Embedded()
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	var b Builder
	for series := range 50 {
		e := a.Kernels()[series*len(a.Kernels())/50]
		types, err := a.Types(e)
		if err != nil {
			t.Fatal(err)
		}
		all := structs(t, types)
		for _, s := range all {
			shiftFrom(s, 0, random.IntN(100))
			for i := range s.Members {
				shiftFrom(s, i, random.IntN(8))
			}
		}
		for release := range 20 {
			for range random.IntN(13) {
				s := all[random.IntN(len(all))]
				shiftFrom(s, random.IntN(len(s.Members)), 1)
			}
			name := fmt.Sprintf("%d.%d.0-%d.%d.1.el%d.x86_64", 4+series/20, series%20, 80+release*17, release, 7+series%4)
			if err := b.Add(Entry{Release: name, Arch: "amd64", Distro: "rhel"}, marshalTypes(t, types)); err != nil {
				t.Fatal(err)
			}
		}
	}
	data, err := b.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	made, err := ReadArchive(data)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d kernels with %d different types in %d bytes", len(made.Kernels()), made.Blobs(), len(data))
	if len(made.Kernels()) != 1000 || made.Blobs() < 900 {
		t.Errorf("%d kernels with %d different types: the test shows little", len(made.Kernels()), made.Blobs())
	}
	if len(data) > maxEmbedded {
		t.Errorf("%d bytes, %d are allowed", len(data), maxEmbedded)
	}
}

// structs returns all structs with members.
func structs(t *testing.T, types *btf.Spec) (all []*btf.Struct) {
	t.Helper()
	for typ, err := range types.All() {
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := typ.(*btf.Struct); ok && len(s.Members) > 0 {
			all = append(all, s)
		}
	}
	return all
}

// shiftFrom moves the members of a struct from the given one on by this many words, like an
// additional member before them.
func shiftFrom(s *btf.Struct, first, words int) {
	for i := first; i < len(s.Members); i++ {
		s.Members[i].Offset += btf.Bits(64 * words)
	}
	s.Size += uint32(8 * words)
}

// marshalTypes returns raw BTF.
func marshalTypes(t *testing.T, types *btf.Spec) []byte {
	t.Helper()
	all := slices.Collect(func(yield func(btf.Type) bool) {
		for typ, err := range types.All() {
			if err != nil {
				t.Fatal(err)
			}
			if !yield(typ) {
				return
			}
		}
	})
	b, err := btf.NewBuilder(all, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := b.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(raw)
}
