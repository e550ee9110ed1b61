package main

import (
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	bare "github.com/quark-linux/quark/internal/barefork"
)

// mountCwd executes in directories of mounts below others. The mounts are made
// in a namespace of the process, with which they go.
func mountCwd(t *test) {
	t.watch()
	type places struct{ outer, inner, bound, deep string }
	bind := func(s *bare.Script, d places) {
		s.Call("bind", unix.SYS_MOUNT, filepath.Dir(d.deep), d.bound, nil, unix.MS_BIND, nil)
	}
	var all []*program
	for _, c := range []struct {
		name string
		cwd  func(places) string
		more func(*bare.Script, places)
	}{
		{"the root of a mount", func(d places) string { return d.outer }, nil},
		{"below the root of a mount", func(d places) string { return filepath.Dir(d.inner) }, nil},
		{"the root of a mount on a mount", func(d places) string { return d.inner }, nil},
		{"below the root of a mount on a mount", func(d places) string { return d.deep }, nil},
		{"a bound directory", func(d places) string { return d.bound }, bind},
		{"below a bound directory", func(d places) string { return filepath.Join(d.bound, "four") }, bind},
		{"one mount upon another", func(d places) string { return d.inner }, func(s *bare.Script, d places) {
			s.Call("mount over", unix.SYS_MOUNT, "over", d.inner, "tmpfs", 0, nil)
		}},
	} {
		d := places{outer: t.TempDir()}
		d.inner = filepath.Join(d.outer, "one", "inner")
		d.bound = filepath.Join(d.outer, "two", "bound")
		d.deep = filepath.Join(d.inner, "three", "four")
		s := script().Call("unshare", unix.SYS_UNSHARE, unix.CLONE_NEWNS).
			Call("make mounts private", unix.SYS_MOUNT, nil, "/", nil, unix.MS_REC|unix.MS_PRIVATE, nil).
			Call("mount tmpfs", unix.SYS_MOUNT, "outer", d.outer, "tmpfs", 0, nil)
		mkdir(s, filepath.Dir(d.inner), d.inner)
		s.Call("mount tmpfs", unix.SYS_MOUNT, "inner", d.inner, "tmpfs", 0, nil)
		mkdir(s, filepath.Dir(d.deep), d.deep, filepath.Dir(d.bound), d.bound)
		if c.more != nil {
			c.more(s, d)
		}
		cwd := c.cwd(d)
		p := t.start(s.Call("chdir", unix.SYS_CHDIR, cwd), []string{c.name}, 0)
		if p.truth.cwd != cwd {
			t.Fatalf("the scenario did not do its work: cwd is %q, not %q", p.truth.cwd, cwd)
		}
		p.name = c.name
		all = append(all, p)
	}
	t.wantExecs(all...)
}

// mkdir appends the making of directories.
func mkdir(s *bare.Script, dirs ...string) {
	for _, d := range dirs {
		s.Call("mkdirat", unix.SYS_MKDIRAT, unix.AT_FDCWD, d, 0o755)
	}
}

// chroot executes in another root. The kernel's paths are those that the process
// has, those of /proc are the reader's.
func chroot(t *test) {
	t.watch()
	var all []*program
	for _, cwd := range []string{"/", "/sub", "/sub/of sub"} {
		root := t.TempDir()
		t.writeProgram(filepath.Join(root, "self"), 0)
		s := script().Call("chdir", unix.SYS_CHDIR, root)
		mkdir(s, "sub", "sub/of sub")
		s.Call("chroot", unix.SYS_CHROOT, ".").Call("chdir", unix.SYS_CHDIR, cwd)
		p := t.startFile(s, "/self", []string{"chroot"})
		if want := filepath.Join(root, cwd); p.truth.cwd != want || p.truth.exe != filepath.Join(root, "self") {
			t.Fatalf("the scenario did not do its work: cwd %q, exe %q", p.truth.cwd, p.truth.exe)
		}
		p.name = cwd
		all = append(all, p)
	}
	t.each(func(v *view) {
		for _, p := range all {
			want := *p.truth
			for f, inside := range map[engine.Field]string{engine.FieldCwd: p.name, engine.FieldFilename: "/self"} {
				if v.q.Capabilities().Fields[f].Origin == engine.OriginKernel {
					want.value[f] = inside
				}
			}
			exec := v.awaitEvent(p.proc, "EXEC in "+p.name, has(engine.EventExec))
			v.check(p.name, exec.Process, &want, v.fields(engine.EventExec))
		}
	})
	t.finishAll(all...)
}
