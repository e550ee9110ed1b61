package dwarfbtf

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/quark-linux/quark/internal/btfhub"
)

// wanted of the types in testdata.
var wanted = []string{
	"task_struct.tgid", "task_struct.flag", "task_struct.other", "task_struct.high", "task_struct.both", "task_struct.live.counter",
	"task_struct.in.b", "task_struct.list.b", "task_struct.type", "task_struct.call", "task_struct.comm", "task_struct.real_parent",
	"task_struct.tail", "task_struct.stack", "twice.same", "twice.moved", "pid_type.PIDTYPE_SID", "pid_type.PIDTYPE_MINUS", "inner_t.b",
	"none.x", "atomic_t", "local.tgid", "nobody_knows.x",
}

func makeBTF(t testing.TB, file string) ([]byte, error) {
	t.Helper()
	f, err := elf.Open(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return Make(f, wanted)
}

// TestMake: each form of debug information gives the offsets that the compiler used.
func TestMake(t *testing.T) {
	for _, file := range []string{"dwarf2.o", "dwarf4.o", "dwarf5.o", "packed.o", "dwz.o"} {
		raw, err := makeBTF(t, file)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		spec, err := btf.LoadSpecFromReader(bytes.NewReader(raw))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		var targets []btfhub.Target
		for _, name := range wanted {
			targets = append(targets, btfhub.Target{Name: name, Alternatives: []string{name}})
		}
		offsets := btfhub.ResolveTargets(spec, targets)
		for _, tt := range []struct{ name, want string }{
			{"task_struct.stack", "8 8"},
			{"task_struct.tgid", "20 4"},
			{"task_struct.both", "24 8"},
			{"task_struct.high", "28 4"},
			{"task_struct.live.counter", "32 4"},
			{"task_struct.in.b", "40 4"},
			{"task_struct.list.b", "48 4"},
			{"task_struct.type", "92 4"},
			{"task_struct.call", "96 8"},
			{"task_struct.comm", "104 16"},
			{"task_struct.real_parent", "120 8"},
			{"task_struct.tail", "128 0"},
			{"twice.same", "0 8"},
			{"inner_t.b", "4 4"},
			{"pid_type.PIDTYPE_SID", "= 2"},
			{"pid_type.PIDTYPE_MINUS", "= -3"},
			{"task_struct.flag", "task_struct.flag is a bit field"},
			{"twice.moved", "several types twice differ in moved"},
			{"local.tgid", "no type local"}, // of a function
			{"nobody_knows.x", "no type nobody_knows"},
			{"none.x", "no type none"},
		} {
			o := offsets.Get(tt.name)
			got := fmt.Sprintf("%d %d", o.Bits/8, o.Size)
			switch {
			case o.Err != nil:
				got = o.Err.Error()
			case o.Enum:
				got = fmt.Sprintf("= %d", o.Value)
			}
			if got != tt.want {
				t.Errorf("%s: %s: %s, want %s", file, tt.name, got, tt.want)
			}
		}
		var task *btf.Struct
		if err := spec.TypeByName("task_struct", &task); err != nil || task.Size != 128 {
			t.Errorf("%s: %v, %v: the same type in two files is not one, or has another size", file, task, err)
		}
		for _, m := range task.Members {
			if m.Name == "state" {
				t.Errorf("%s: a member is there that nobody wants", file)
			}
			if want := map[string]btf.Bits{"flag": 128, "other": 129}[m.Name]; want != 0 && (m.Offset != want || m.BitfieldSize == 0) {
				t.Errorf("%s: bit field %s is at %d with %d bits, want %d", file, m.Name, m.Offset, m.BitfieldSize, want)
			}
		}
	}
}

func TestRefused(t *testing.T) {
	if _, err := makeBTF(t, "none.o"); !errors.Is(err, ErrNone) {
		t.Errorf("no debug information: %v", err)
	}
	f, err := elf.Open("testdata/dwarf5.o")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := Make(f, []string{"none.x"}); err == nil {
		t.Error("none of the types: no error")
	}
}

func FuzzMake(f *testing.F) {
	for _, name := range []string{"dwarf2.o", "dwarf4.o", "dwarf5.o", "none.o"} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := elf.NewFile(bytes.NewReader(data))
		if err != nil {
			return
		}
		raw, err := Make(file, wanted)
		if err != nil {
			return
		}
		if _, err := btf.LoadSpecFromReader(bytes.NewReader(raw)); err != nil {
			t.Errorf("what was made is no BTF: %v", err)
		}
	})
}
