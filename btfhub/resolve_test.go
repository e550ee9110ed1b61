package btfhub

import (
	"bytes"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
)

var (
	u32     = &btf.Int{Name: "u32", Size: 4}
	u64     = &btf.Int{Name: "u64", Size: 8}
	pointer = &btf.Pointer{Target: (*btf.Void)(nil)}
)

func at(bytes uint32) btf.Bits { return btf.Bits(bytes * 8) }

// shapes are types with each special case for a resolver.
func shapes() []btf.Type {
	inner := &btf.Struct{Name: "inner", Size: 16, Members: []btf.Member{
		{Name: "a", Type: u64}, {Name: "b", Type: u32, Offset: at(8)},
	}}
	deep := &btf.Union{Size: 8, Members: []btf.Member{
		{Name: "deep", Type: u64},
		{Type: &btf.Struct{Size: 8, Members: []btf.Member{{Name: "low", Type: u32}, {Name: "high", Type: u32, Offset: at(4)}}}},
	}}
	anonymous := &btf.Struct{Size: 24, Members: []btf.Member{
		{Name: "x", Type: u64}, {Type: deep, Offset: at(8)}, {Name: "y", Type: pointer, Offset: at(16)},
	}}
	return []btf.Type{
		&btf.Struct{Name: "s", Size: 256, Members: []btf.Member{
			{Name: "first", Type: u32},
			{Name: "flag", Type: u32, Offset: 32, BitfieldSize: 1},
			{Name: "odd", Type: u32, Offset: 33},
			{Type: &btf.Const{Type: anonymous}, Offset: at(16)},
			{Name: "in", Type: &btf.Typedef{Name: "inner_t", Type: &btf.Volatile{Type: inner}}, Offset: at(64)},
			{Name: "array", Type: &btf.Array{Index: u32, Type: inner, Nelems: 3}, Offset: at(80)},
			{Name: "to", Type: &btf.Pointer{Target: inner}, Offset: at(128)},
			{Name: "void", Type: (*btf.Void)(nil), Offset: at(136)},
		}},
		&btf.Struct{Name: "s___flavour", Size: 8, Members: []btf.Member{{Name: "other", Type: u64}}},
		&btf.Struct{Name: "twice", Size: 8, Members: []btf.Member{{Name: "same", Type: u32}, {Name: "moved", Type: u32, Offset: at(4)}}},
		&btf.Struct{Name: "twice", Size: 12, Members: []btf.Member{{Name: "same", Type: u32}, {Name: "moved", Type: u32, Offset: at(8)}}},
		&btf.Typedef{Name: "alias", Type: inner},
		&btf.Enum{Name: "e", Size: 4, Signed: true, Values: []btf.EnumValue{{Name: "MINUS", Value: 1<<64 - 2}, {Name: "TWO", Value: 2}}},
		&btf.Struct{Name: "huge", Size: 1 << 31, Members: []btf.Member{{Name: "far", Type: &btf.Array{Index: u32, Type: u64, Nelems: 1 << 30}}}},
	}
}

func newSpec(t testing.TB, types []btf.Type) *btf.Spec {
	t.Helper()
	b, err := btf.NewBuilder(types, nil)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := b.Spec()
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

func TestResolve(t *testing.T) {
	spec := newSpec(t, shapes())
	for _, tt := range []struct {
		path string
		want int64  // bytes, or an enumerator's value
		err  string // expected part of the error
	}{
		{"s.first", 0, ""},
		{"s.x", 16, ""},
		{"s.deep", 24, ""},
		{"s.high", 28, ""},
		{"s.y", 32, ""},
		{"s.in", 64, ""},
		{"s.in.b", 72, ""},
		{"s.array", 80, ""},
		{"s.array.b", 88, ""},
		{"alias.b", 8, ""},
		{"twice.same", 0, ""},
		{"e.MINUS", -2, ""},
		{"e.TWO", 2, ""},
		{"s.flag", 4, ""},
		{"s.odd", 0, "does not start at a byte"},
		{"s.to", 128, ""},
		{"s.to.a", 0, "s has no to.a"}, // behind a pointer
		{"s.void", 136, ""},
		{"s.other", 0, "s has no other"}, // of a flavour
		{"twice.moved", 0, "the types named twice differ in moved"},
		{"huge.far", 0, "has no size"},
		{"e.THREE", 0, "e has no THREE"},
		{"u32.x", 0, "u32 has no x"},
		{"none.x", 0, "no type none"},
		{"s", 0, "not TYPE.MEMBER"},
		{".x", 0, "not TYPE.MEMBER"},
		{"s.", 0, "not TYPE.MEMBER"},
		{"s..x", 0, "has no .x"},
	} {
		o := ResolveTargets(spec, []Target{need(tt.path)})
		r := o.Get(tt.path)
		if tt.err != "" {
			if r.Found() || r.Err == nil || !strings.Contains(r.Err.Error(), tt.err) {
				t.Errorf("%s: got %+v, want an error with %q", tt.path, *r, tt.err)
			}
			continue
		}
		if r.Enum {
			if v, ok := o.Value(tt.path); !ok || v != tt.want {
				t.Errorf("%s: got value %d %v, want %d (%v)", tt.path, v, ok, tt.want, r.Err)
			}
			continue
		}
		if off, ok := o.Bytes(tt.path); !ok || int64(off) != tt.want {
			t.Errorf("%s: got offset %d %v, want %d (%v)", tt.path, off, ok, tt.want, r.Err)
		}
	}
}

func TestAlternatives(t *testing.T) {
	spec := newSpec(t, shapes())
	o := ResolveTargets(spec, []Target{
		need("s.gone", "s.gone2", "s.y"),
		need("s.gone4"),
		want("s.gone6"),
		need("s.gone7"),
	})
	if r := o.Get("s.gone"); r.Path != "s.y" || r.Bits != 32*8 || r.Size != 8 {
		t.Errorf("%+v", *r)
	}
	if got, want := strings.Join(o.Missing(), " "), "s.gone4 s.gone7"; got != want {
		t.Errorf("missing %q, want %q", got, want)
	}
	if _, ok := o.Bytes("s.gone6"); ok {
		t.Error("an offset of a missing member")
	}
	if _, ok := o.Bytes("no target"); ok || o.Get("no target") != nil {
		t.Error("an offset of an unknown target")
	}
	if _, ok := o.Value("s.gone"); ok {
		t.Error("a member has a value")
	}
}

// TestTargets checks the list of targets.
func TestTargets(t *testing.T) {
	seen := make(map[string]bool)
	for _, target := range Targets() {
		if seen[target.Name] {
			t.Errorf("%s is there twice", target.Name)
		}
		seen[target.Name] = true
	}
}

// TestCircles searches anonymous types that contain each other, as only forged BTF can.
func TestCircles(t *testing.T) {
	a, b := &btf.Struct{Size: 8}, &btf.Struct{Size: 8}
	a.Members = []btf.Member{{Type: b}, {Type: b, Offset: 8}, {Type: a}}
	b.Members = []btf.Member{{Type: a}, {Type: a}, {Name: "x", Type: a, Offset: 16}}
	if _, _, ok := findMember(a, []string{"none"}); ok {
		t.Error("found a missing member")
	}
	if m, bits, ok := findMember(a, []string{"x", "x", "x"}); !ok || m.Name != "x" || bits != 48 {
		t.Errorf("%v at bit %d, %v", m, bits, ok)
	}
	wide := make([]btf.Type, 2*maxAnonymous)
	for i := range wide {
		wide[i] = &btf.Struct{}
		if i > 0 {
			wide[i].(*btf.Struct).Members = []btf.Member{{Type: wide[i-1]}, {Type: wide[i-1]}}
		}
	}
	if _, _, ok := findMember(wide[len(wide)-1], []string{"none"}); ok {
		t.Error("found a missing member")
	}
	if _, _, ok := findMember(a, nil); ok {
		t.Error("no names: found")
	}
}

func FuzzResolve(f *testing.F) {
	b, err := btf.NewBuilder(shapes(), nil)
	if err != nil {
		f.Fatal(err)
	}
	raw, err := b.Marshal(nil, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	if a, err := Embedded(); err == nil {
		f.Add(a.BTF(a.Kernels()[0]))
	}
	paths := []Target{need("s.high"), need("s.in.b"), need("s.array.b"), need("twice.same"), need("e.MINUS"), need("alias.b")}
	f.Fuzz(func(t *testing.T, data []byte) {
		spec, err := btf.LoadSpecFromReader(bytes.NewReader(data))
		if err != nil {
			return
		}
		for _, o := range ResolveTargets(spec, append(Targets(), paths...)).All() {
			if o.Found() == (o.Err != nil) || o.Bits%8 != 0 || o.Bits/8 >= maxOffset || o.Size >= maxOffset {
				t.Errorf("%+v", *o)
			}
		}
		if raw, err := Reduce(spec, reduced); err == nil {
			compareReduced(t, spec, raw, reduced)
		}
	})
}
