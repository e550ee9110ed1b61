package ebpf

import (
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/asm"

	"github.com/quark-linux/quark/backends/features"
	"github.com/quark-linux/quark/btfhub"
)

// ancient are helpers older than any kernel with raw tracepoints, or as old as a helper or map that
// the table has.
var ancient = []asm.BuiltinFunc{
	asm.FnGetCurrentTask, asm.FnGetSmpProcessorId, asm.FnKtimeGetNs, asm.FnTailCall,
	asm.FnMapLookupElem, asm.FnMapUpdateElem, asm.FnMapDeleteElem,
	asm.FnMapPushElem, asm.FnMapPopElem, // with the stack
	asm.FnRingbufSubmit, asm.FnRingbufDiscard, // with ringbuf_reserve
}

// TestNeedsAreInTheTable: the table of features has every helper, map type and program type of the
// programs.
func TestNeedsAreInTheTable(t *testing.T) {
	spec, err := loadPrograms()
	if err != nil {
		t.Fatal(err)
	}
	plain := strings.NewReplacer("_", "", " ", "").Replace
	listed := make(map[string]bool)
	for _, f := range features.Table {
		if f.Backend == "ebpf" {
			listed[plain(strings.ToLower(f.Name))] = true
		}
	}
	for _, f := range ancient {
		listed["helper:"+strings.ToLower(strings.TrimPrefix(f.String(), "Fn"))] = true
	}
	for _, old := range []string{"map:array", "map:hash"} {
		listed[old] = true
	}
	for name, p := range spec.Programs {
		if what := "programson" + strings.ToLower(p.Type.String()) + "s"; !listed[what] {
			t.Errorf("%s: %s is not in the table", name, what)
		}
		for _, ins := range p.Instructions {
			if !ins.IsBuiltinCall() {
				continue
			}
			if what := "helper:" + strings.ToLower(strings.TrimPrefix(asm.BuiltinFunc(ins.Constant).String(), "Fn")); !listed[what] {
				t.Errorf("%s: %s is not in the table", name, what)
			}
		}
	}
	for name, m := range spec.Maps {
		if what := "map:" + strings.ToLower(m.Type.String()); !listed[what] && what != "map:ringbuf" {
			t.Errorf("%s: %s is not in the table", name, what)
		}
	}
	if !listed["map:ringbuffer"] {
		t.Error("the ring buffer is not in the table")
	}
}

// TestFieldsNeedWhatIsTaken: what decides whether a field can be read is in the part of the
// kernel's types that is taken.
func TestFieldsNeedWhatIsTaken(t *testing.T) {
	taken := btfhub.Needed()
	for _, f := range fieldSources {
		for one := range strings.SplitSeq(f.needs, anyOther) {
			if f.needs != "" && !slices.Contains(taken, one) {
				t.Errorf("%v: %s is not in btfhub.Needed", f.field, one)
			}
		}
	}
}
