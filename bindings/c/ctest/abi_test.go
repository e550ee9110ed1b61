package ctest

import (
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/internal/golden"
)

// testdata/abi.txt may only grow, so that compiled programs keep working. go test -update writes
// it.
func TestABI(t *testing.T) {
	h := parseHeader(t)
	var b strings.Builder
	for _, l := range h.structs {
		b.WriteString(l.String())
	}
	for _, d := range h.defines {
		fmt.Fprintln(&b, "define", d)
	}
	golden.Compare(t, "testdata/abi.txt", []byte(b.String()))
}

// Compilers find the same offsets as the rules that amd64 and arm64 have in common.
func TestCompilersAgree(t *testing.T) {
	var b strings.Builder
	b.WriteString("#include \"../quark.h\"\n")
	for _, l := range parseHeader(t).structs {
		fmt.Fprintf(&b, "_Static_assert(sizeof(struct %s) == %d, \"\");\n", l.name, l.size)
		for _, m := range l.members {
			fmt.Fprintf(&b, "_Static_assert(offsetof(struct %s, %s) == %d, \"\");\n", l.name, m.name, m.offset)
			fmt.Fprintf(&b, "_Static_assert(sizeof(((struct %s *)0)->%s) == %d, \"\");\n", l.name, m.name, m.size)
		}
	}
	tried := 0
	for _, compiler := range []string{"gcc", "clang", "x86_64-linux-gnu-gcc", "aarch64-linux-gnu-gcc"} {
		if _, err := exec.LookPath(compiler); err != nil {
			continue
		}
		tried++
		run := exec.Command(compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c", "-I.", "-")
		run.Stdin = strings.NewReader(b.String())
		if out, err := run.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", compiler, err, out)
		}
	}
	if tried == 0 {
		t.Skip("needs a C compiler")
	}
	if _, err := exec.LookPath("g++"); err == nil {
		run := exec.Command("g++", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c++", "../quark.h")
		if out, err := run.CombinedOutput(); err != nil {
			t.Errorf("C++: %v\n%s", err, out)
		}
	}
}

// The library exports what the header declares, and nothing else.
func TestSymbols(t *testing.T) {
	file, err := elf.Open(library(t) + "/lib/libquark.so")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	symbols, err := file.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	var exported []string
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF && elf.ST_TYPE(s.Info) == elf.STT_FUNC {
			exported = append(exported, s.Name)
		}
	}
	slices.Sort(exported)
	golden.Compare(t, "testdata/symbols.txt", []byte(strings.Join(exported, "\n")+"\n"))
	if name, err := file.DynString(elf.DT_SONAME); err != nil || !slices.Equal(name, []string{"libquark.so.0"}) {
		t.Errorf("got library name %q, error %v", name, err)
	}
	text, err := os.ReadFile("../quark.h")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range exported {
		if !strings.Contains(string(text), name+"(") {
			t.Errorf("quark.h does not declare %s", name)
		}
	}
}

// The constants have the same numbers in C and Go.
func TestConstants(t *testing.T) {
	h := parseHeader(t)
	want := func(name string, value int) {
		t.Helper()
		if got, ok := h.constants[name]; !ok || got != value {
			t.Errorf("%s: got %d (%v) in quark.h, want %d as in Go", name, got, ok, value)
		}
	}
	upper := func(s any) string {
		return strings.ToUpper(strings.ReplaceAll(fmt.Sprint(s), "-", "_"))
	}
	for k := range quark.Kind(quark.NumKinds) {
		want("QUARK_EV_"+k.String(), int(k.Events()))
	}
	want("QUARK_EV_GONE", int(quark.EventGone))
	for _, c := range []quark.IDChange{quark.ChangedSID, quark.ChangedUID, quark.ChangedGID, quark.ChangedPGID} {
		want("QUARK_ID_"+c.String(), int(c))
	}
	for l := range quark.Loss(quark.NumLosses) {
		want("QUARK_LOSS_"+upper(l), int(l))
	}
	for _, p := range []quark.Privileges{quark.BySetUID, quark.BySetGID, quark.ByFileCaps} {
		want("QUARK_PRIV_"+upper(p), int(p))
	}
	names := map[string]string{"uid+euid": "UIDS", "gid+egid": "GIDS"}
	for f := range quark.Field(quark.NumFields) {
		name, number := names[f.String()], int(f)
		if name == "" {
			name = upper(f)
		}
		if !quark.AllFields.Has(f) { // derived ones are numbered from the top
			number = 64 - (quark.NumFields - number)
		}
		want("QUARK_FIELD_"+name, number)
	}
	for i, e := range []quark.EntryType{quark.EntryUnknown, quark.EntryInit, quark.EntryKThread, quark.EntrySSHD, quark.EntrySSM, quark.EntryContainer, quark.EntryTerminal} {
		name := []string{"UNKNOWN", "INIT", "KTHREAD", "SSHD", "SSM", "CONTAINER", "TERM"}[i]
		want("QUARK_ELT_"+name, int(e))
	}
	for s := quark.StreamClosed; s <= quark.StreamOther; s++ {
		want("QUARK_STREAM_"+upper(s), int(s))
	}
}

// Python's structures and numbers equal those in the header.
func TestPythonABI(t *testing.T) {
	h := parseHeader(t)
	out := python(t, "testdata/abi.py")
	var got struct {
		Structs   string
		Constants map[string]uint64
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var want strings.Builder
	for _, l := range h.structs {
		if l.name != "quark_cmdline_iter" { // which Python does not need
			want.WriteString(l.String())
		}
	}
	if diff := cmp.Diff(want.String(), got.Structs); diff != "" {
		t.Error(diff)
	}
	for name, value := range got.Constants {
		if n, ok := strings.CutPrefix(name, "QUARK_FIELD_"); ok {
			value = uint64(bits.TrailingZeros64(value))
			name = "QUARK_FIELD_" + n
		}
		if got, ok := h.constants[name]; !ok || uint64(got) != value {
			t.Errorf("%s: got %d in Python, want %d (%v) as in quark.h", name, value, got, ok)
		}
	}
}

// python runs a script with the example's module and returns its output.
func python(t testing.TB, script string, args ...string) []byte {
	t.Helper()
	lib := library(t)
	needs(t, "python3", "to run Python: apt-get install python3")
	run := exec.CommandContext(t.Context(), "python3", append([]string{"-B", "-W", "error", script}, args...)...)
	run.Env = append(os.Environ(), "LIBQUARK="+lib+"/lib/libquark.so.0", "PYTHONPATH=../examples", "PYTHONIOENCODING=utf-8")
	out, err := run.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			out = append(out, exit.Stderr...)
		}
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return out
}
