package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
)

// longArgs executes with many arguments.
func longArgs(t *test) {
	t.watch()
	var all []*program
	for _, size := range []int{16 << 10, 100 << 10} {
		argv := []string{"long"}
		for n := len("long") + 1; n < size; n += 100 {
			argv = append(argv, fmt.Sprintf("%099d", n))
		}
		p := t.start(script(), argv, 0)
		want := strings.Join(argv, "\x00") + "\x00"
		if p.truth.cmdline != want {
			t.Fatalf("the scenario did not do its work: /proc has %d of %d bytes", len(p.truth.cmdline), len(want))
		}
		all = append(all, p)
	}
	t.each(func(v *view) {
		for i, p := range all {
			whole, want := i == 0, p.truth.cmdline
			exec := v.awaitEvent(p.proc, "EXEC", has(engine.EventExec)).Process
			got := string(exec.Cmdline)
			cut := exec.Truncated.Has(engine.FieldCmdline)
			v.Logf("%d bytes: %d reported, cut %v", len(want), len(got), cut)
			switch {
			case !exec.Known.Has(engine.FieldCmdline):
				v.Errorf("%d bytes of arguments: unknown", len(want))
			case whole && (cut || got != want):
				v.Errorf("%d bytes of arguments: %d reported, cut %v, equal %v", len(want), len(got), cut, got == want)
			case cut && (!strings.HasPrefix(want, got) || len(got) == len(want) || len(got) < 4096):
				v.Errorf("%d bytes of arguments: %d reported and marked as cut, a beginning of them %v", len(want), len(got), strings.HasPrefix(want, got))
			case !cut && got != want:
				v.Errorf("%d bytes of arguments: %d reported and not marked as cut, a beginning of them %v", len(want), len(got), strings.HasPrefix(want, got))
			}
		}
	})
	t.finishAll(all...)
}

// deepCwd executes deep down in the file system.
func deepCwd(t *test) {
	t.watch()
	depths := []int{90, 120}
	var all []*program
	for _, depth := range depths {
		dir := t.TempDir()
		for n := strings.Count(dir, "/"); n < depth; n++ {
			dir += fmt.Sprintf("/d%03d", n)
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatalf("%v", err)
		}
		p := t.start(script().Call("chdir", unix.SYS_CHDIR, dir), []string{"deep"}, 0)
		if p.truth.cwd != dir {
			t.Fatalf("the scenario did not do its work: cwd is %q", p.truth.cwd)
		}
		all = append(all, p)
	}
	t.each(func(v *view) {
		for i, p := range all {
			depth, dir := depths[i], p.truth.cwd
			exec := v.awaitEvent(p.proc, "EXEC", has(engine.EventExec)).Process
			cut := exec.Truncated.Has(engine.FieldCwd)
			v.Logf("%d components: cut %v", depth, cut)
			switch {
			case !exec.Known.Has(engine.FieldCwd):
				v.Errorf("%d components: unknown", depth)
			case depth <= 90 && (cut || exec.Cwd != dir), !cut && exec.Cwd != dir:
				v.Errorf("%d components: cut %v, cwd is %q", depth, cut, exec.Cwd)
			case cut && (!strings.HasSuffix(dir, exec.Cwd) || len(exec.Cwd) == len(dir) || len(exec.Cwd) < 64):
				v.Errorf("%d components: marked as cut, but %q is not its end", depth, exec.Cwd)
			}
		}
	})
	t.finishAll(all...)
}

// notUTF8 executes a program whose name, place and arguments are no text.
func notUTF8(t *test) {
	t.watch()
	const odd = "\xff\xfe\n\x01\"\\ (x) "
	dir := filepath.Join(t.TempDir(), "d"+odd)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatalf("%v", err)
	}
	path := filepath.Join(dir, odd+"f")
	t.writeProgram(path, 0)
	argv := []string{odd, "", "a" + odd, "\x80", ""}
	p := t.startFile(script().Call("chdir", unix.SYS_CHDIR, dir), path, argv)
	if p.truth.exe != path || p.truth.cwd != dir || p.truth.comm != odd+"f" {
		t.Fatalf("the scenario did not do its work: exe %q, cwd %q, comm %q", p.truth.exe, p.truth.cwd, p.truth.comm)
	}
	t.wantExecs(p)
	t.each(func(v *view) {
		var got []string
		for a := range v.awaitEvent(p.proc, "EXEC", has(engine.EventExec)).Process.Args() {
			got = append(got, string(a))
		}
		if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", argv) {
			v.Errorf("arguments are %q, want %q", got, argv)
		}
	})
}
