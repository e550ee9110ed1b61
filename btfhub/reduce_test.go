package btfhub

import (
	"bytes"
	"os"
	"reflect"
	"testing"

	"github.com/cilium/ebpf/btf"
)

// reduced are members of the shapes, and a count of the types that contain them.
var reduced = []string{"alias.b", "e.MINUS", "none.x", "s.array.b", "s.flag", "s.gone", "s.high", "s.in.b", "s.to", "twice.same", "u32.x"}

func TestReduce(t *testing.T) {
	whole := newSpec(t, shapes())
	raw, again := reduceTwice(t, whole, reduced)
	if !bytes.Equal(again, raw) {
		t.Errorf("got %d bytes from a second reduction, want the same %d bytes", len(again), len(raw))
	}
	small := compareReduced(t, whole, raw, reduced)
	var all int
	for typ, err := range small.All() {
		if err != nil {
			t.Fatal(err)
		}
		all++
		for _, m := range Members(typ) {
			if m.Name == "x" || m.Name == "first" || m.Name == "moved" {
				t.Errorf("%s has %s", typ.TypeName(), m.Name)
			}
		}
	}
	// void, alias, inner, u32, e, s, a pointer, an array, three types without a name, u64,
	// twice, twice
	if all != 13 {
		t.Errorf("%d types", all)
	}
	if _, err := Reduce(whole, []string{"none.x", "", "."}); err == nil {
		t.Error("no error without wanted members")
	}
}

func reduceTwice(t *testing.T, whole *btf.Spec, members []string) (raw, again []byte) {
	t.Helper()
	raw, err := Reduce(whole, members)
	if err != nil {
		t.Fatal(err)
	}
	small, err := loadRaw(raw)
	if err != nil {
		t.Fatal(err)
	}
	if again, err = Reduce(small, members); err != nil {
		t.Fatal(err)
	}
	return raw, again
}

// compareReduced compares look-ups in reduced types with those in the whole.
func compareReduced(t *testing.T, whole *btf.Spec, raw []byte, members []string) *btf.Spec {
	t.Helper()
	small, err := loadRaw(raw)
	if err != nil {
		t.Fatal(err)
	}
	var targets []Target
	for _, m := range members {
		targets = append(targets, need(m))
	}
	got := ResolveTargets(small, targets)
	for _, w := range ResolveTargets(whole, targets).All() {
		if g := got.Get(w.Target.Name); w.Found() && !g.Same(w) {
			t.Errorf("%s: got %+v, want %+v", w.Target.Name, *g, *w)
		}
	}
	return small
}

func TestReduceHost(t *testing.T) {
	if _, err := os.Stat(KernelBTF); err != nil {
		t.Skip(err)
	}
	k, err := Open(Options{})
	if err != nil {
		t.Fatal(err)
	}
	whole, err := Open(Options{Whole: true})
	if err != nil {
		t.Fatal(err)
	}
	if k.Origin != KernelBTF || whole.Origin != KernelBTF || !k.Exact || !whole.Exact {
		t.Errorf("origins %q and %q", k.Origin, whole.Origin)
	}
	if got, want := Resolve(k.Spec), Resolve(whole.Spec); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	} else if missing := got.Missing(); missing != nil {
		t.Errorf("the types from %s lack %q", k.Origin, missing)
	}
	for _, name := range OlderMembers {
		if _, ok := ResolveTargets(k.Spec, []Target{need(name)}).Bytes(name); !ok {
			t.Errorf("the reduced types lack %s", name)
		}
	}
}
