package excerpt_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/quark-linux/quark/internal/btfhub"
	"github.com/quark-linux/quark/internal/btfhub/excerpt"
)

// shapes are types with one of each kind.
func shapes() []btf.Type {
	u32 := &btf.Int{Name: "u32", Size: 4}
	u64 := &btf.Int{Name: "u64", Size: 8}
	far := &btf.Struct{Name: "far", Size: 8, Members: []btf.Member{{Name: "a", Type: u64}}}
	pointer := &btf.Pointer{Target: far}
	inner := &btf.Struct{Name: "inner", Size: 16, Members: []btf.Member{
		{Name: "a", Type: u64}, {Name: "b", Type: u32, Offset: 64},
	}}
	anonymous := &btf.Union{Size: 8, Members: []btf.Member{
		{Name: "x", Type: u64}, {Name: "y", Type: pointer}, {Name: "left", Type: far},
	}}
	outer := &btf.Struct{Name: "outer", Size: 128, Members: []btf.Member{
		{Name: "left", Type: far},
		{Type: anonymous, Offset: 64},
		{Name: "in", Type: &btf.Typedef{Name: "inner_t", Type: &btf.Volatile{Type: &btf.Const{Type: inner}}}, Offset: 128},
		{Name: "to", Type: &btf.TypeTag{Type: &btf.Restrict{Type: pointer}, Value: "tag"}, Offset: 256},
		{Name: "list", Type: &btf.Array{Index: u32, Type: pointer, Nelems: 3}, Offset: 320},
		{Name: "flag", Type: u32, Offset: 515, BitfieldSize: 1},
		{Name: "real", Type: &btf.Float{Name: "double", Size: 8}, Offset: 576},
	}}
	function := &btf.Func{Name: "outer", Type: &btf.FuncProto{Return: u32, Params: []btf.FuncParam{{Name: "p", Type: pointer}}}}
	variable := &btf.Var{Name: "outer", Type: u32}
	return []btf.Type{
		function, variable,
		&btf.Datasec{Name: ".data", Size: 4, Vars: []btf.VarSecinfo{{Type: variable, Size: 4}}},
		&btf.Fwd{Name: "outer"},
		outer,
		&btf.Struct{Name: "outer___flavour", Size: 8, Members: []btf.Member{{Name: "in", Type: u64}}},
		&btf.Struct{Name: "inner", Size: 4, Members: []btf.Member{{Name: "b", Type: u32}}},
		&btf.Typedef{Name: "alias", Type: inner},
		&btf.Enum{Name: "e", Size: 4, Signed: true, Values: []btf.EnumValue{{Name: "MINUS", Value: 1<<64 - 2}, {Name: "TWO", Value: 2}}},
		&btf.Enum{Name: "wide", Size: 8, Values: []btf.EnumValue{{Name: "HUGE", Value: 1 << 40}, {Name: "TWO", Value: 2}}},
		// x is wanted in outer only.
		&btf.Struct{Name: "z", Size: 8, Members: []btf.Member{{Name: "b", Type: u32}, {Name: "x", Type: u32, Offset: 32}}},
	}
}

// wanted members of the shapes.
var wanted = []string{
	"alias.b", "e.MINUS", "inner.b", "none.x", "outer.flag", "outer.gone", "outer.in.b", "outer.list", "outer.real", "outer.to",
	"outer.x", "outer.y", "wide.HUGE", "z",
}

func marshal(t testing.TB, types []btf.Type) []byte {
	t.Helper()
	b, err := btf.NewBuilder(types, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := b.Marshal(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// describe prints types in the order of their numbers, without the numbers.
func describe(t testing.TB, raw []byte) (all []string) {
	t.Helper()
	spec, err := btf.LoadSpecFromReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	for typ, err := range spec.All() {
		if err != nil {
			t.Fatal(err)
		}
		line := strings.TrimPrefix(fmt.Sprintf("%T ", typ), "*btf.") + typ.TypeName()
		switch typ := typ.(type) {
		case *btf.Struct:
			line += describeMembers(typ.Size, typ.Members)
		case *btf.Union:
			line += describeMembers(typ.Size, typ.Members)
		case *btf.Enum:
			line += fmt.Sprint(typ.Size, typ.Signed, typ.Values)
		case *btf.Pointer:
			line += fmt.Sprint(typ.Target)
		case *btf.Array:
			line += fmt.Sprint(typ.Nelems)
		}
		all = append(all, line)
	}
	return all
}

func describeMembers(size uint32, members []btf.Member) string {
	s := fmt.Sprintf(" %d:", size)
	for _, m := range members {
		s += fmt.Sprintf(" %s %d %d", m.Name, m.Offset, m.BitfieldSize)
	}
	return s
}

func TestIDs(t *testing.T) {
	raw := marshal(t, shapes())
	spec, err := btf.LoadSpecFromReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"outer", "struct outer", "struct z", "inner", "struct gone", ""}
	got := excerpt.IDs(raw, names...)
	for i, id := range got {
		var name string
		if id != 0 {
			of, err := spec.TypeByID(btf.TypeID(id))
			if err != nil {
				t.Fatal(err)
			}
			if name = of.TypeName(); i != 0 {
				name = "struct " + name
			}
			if _, isStruct := of.(*btf.Struct); isStruct != (i != 0) {
				t.Errorf("%s is %v", names[i], of)
			}
		}
		if want := names[i]; i >= 3 && name != "" || i < 3 && name != want {
			t.Errorf("%q is type %d, %q", want, id, name)
		}
	}
	if got := excerpt.IDs(raw[:9], names...); len(got) != len(names) || slices.Max(got) != 0 {
		t.Errorf("of damaged types: %v", got)
	}
}

func TestMake(t *testing.T) {
	got, err := excerpt.Make(marshal(t, shapes()), wanted)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"Array 3",
		"Enum e4 true [{MINUS 18446744073709551614}]",
		"Enum wide8 false [{HUGE 1099511627776}]",
		"Float double",
		"Int u32",
		"Int u64",
		"Pointer Void",
		"Struct inner 16: b 64 0",
		"Struct inner 4: b 0 0",
		"Struct outer 128:  64 0 in 128 0 to 256 0 list 320 0 flag 515 1 real 576 0",
		"Struct z 8: b 0 0",
		"Typedef alias",
		"Union  8: x 0 0 y 0 0",
		"Void ",
	}
	all := describe(t, got)
	slices.Sort(all)
	if !slices.Equal(all, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(all, "\n"), strings.Join(want, "\n"))
	}
	again, err := excerpt.Make(got, wanted)
	if err != nil || len(again) != len(got) {
		t.Errorf("the excerpt of an excerpt has %d bytes, not %d, error %v", len(again), len(got), err)
	}
	if _, err := excerpt.Make(got, []string{"none.x", "", "."}); err == nil {
		t.Error("no error without wanted members")
	}
}

// TestManyTypes has types at every place between index entries.
func TestManyTypes(t *testing.T) {
	var types []btf.Type
	var members []string
	for i := range 1000 {
		in := &btf.Struct{Name: fmt.Sprintf("in%d", i), Size: uint32(i + 1)}
		types = append(types, &btf.Struct{Name: fmt.Sprintf("s%d", i), Size: uint32(2000), Members: []btf.Member{
			{Name: "m", Type: in, Offset: btf.Bits(i)},
		}})
		if i%7 == 0 {
			members = append(members, fmt.Sprintf("s%d.m", i))
		}
	}
	raw := marshal(t, types)
	made, err := excerpt.Make(raw, members)
	if err != nil {
		t.Fatal(err)
	}
	got, all := describe(t, made), describe(t, raw)
	if want := 1 + 2*len(members); len(got) != want {
		t.Errorf("%d types, want %d", len(got), want)
	}
	for _, one := range got {
		if !slices.Contains(all, one) {
			t.Errorf("%s is not in the whole", one)
		}
	}
}

// TestDamage cuts BTF and damages each of its bytes.
func TestDamage(t *testing.T) {
	raw := marshal(t, shapes())
	for n := range raw {
		if _, err := excerpt.Make(raw[:n], wanted); err == nil {
			t.Errorf("cut to %d bytes: no error", n)
		}
		for _, bits := range []byte{1, 0x80, 0xff} {
			damaged := bytes.Clone(raw)
			damaged[n] ^= bits
			check(t, damaged)
		}
	}
	unknown := bytes.Clone(raw)
	copy(unknown[28:], []byte{0, 0, 0, 31}) // the first type's info
	if _, err := excerpt.Make(unknown, wanted); err == nil {
		t.Error("no error for an unknown kind")
	}
	unended := bytes.Clone(raw)
	unended[len(raw)-1] = 'x'
	if _, err := excerpt.Make(unended, wanted); err == nil {
		t.Error("no error for strings without an end")
	}
}

// check makes an excerpt of arbitrary input and compares look-ups in it with the library's look-ups
// in the whole.
func check(t *testing.T, raw []byte) {
	made, err := excerpt.Make(raw, wanted)
	if err != nil {
		return
	}
	if len(made) > len(raw)+100 { // the header, and the type of all pointers
		t.Errorf("an excerpt of %d bytes from %d", len(made), len(raw))
	}
	whole, err := btf.LoadSpecFromReader(bytes.NewReader(raw))
	if err != nil {
		return
	}
	spec, err := btf.LoadSpecFromReader(bytes.NewReader(made))
	if err != nil {
		t.Errorf("load excerpt: %v", err)
		return
	}
	var targets []btfhub.Target
	for _, w := range wanted {
		targets = append(targets, btfhub.Target{Name: w, Alternatives: []string{w}})
	}
	got := btfhub.ResolveTargets(spec, targets)
	for _, w := range btfhub.ResolveTargets(whole, targets).All() {
		g := got.Get(w.Target.Name)
		if w.Found() && (!g.Found() || g.Bits != w.Bits || g.Size != w.Size || g.Value != w.Value || g.Enum != w.Enum) {
			t.Errorf("%s: got %+v, want %+v", w.Target.Name, *g, *w)
		}
	}
}

// FuzzMake gets the data after the header, which TestDamage covers.
func FuzzMake(f *testing.F) {
	add := func(raw []byte) {
		end := 24 + binary.LittleEndian.Uint32(raw[12:])
		f.Add(raw[24:end], raw[end:])
	}
	add(marshal(f, shapes()))
	if a, err := btfhub.Embedded(); err == nil {
		add(a.BTF(a.Kernels()[0]))
	}
	f.Fuzz(func(t *testing.T, types, strings []byte) {
		raw := []byte{0x9f, 0xeb, 1, 0}
		for _, v := range []int{24, 0, len(types), len(types), len(strings)} {
			raw = binary.LittleEndian.AppendUint32(raw, uint32(v))
		}
		check(t, append(append(raw, types...), strings...))
	})
}
