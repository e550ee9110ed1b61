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
	t.listen()
	top := t.TempDir()
	outer := filepath.Join(top, "outer")
	inner := filepath.Join(outer, "one", "inner")
	bound := filepath.Join(outer, "two", "bound")
	deep := filepath.Join(inner, "three", "four")
	steps := func() *bare.Script {
		s := script().Call("unshare", unix.SYS_UNSHARE, unix.CLONE_NEWNS).
			Call("make mounts private", unix.SYS_MOUNT, nil, "/", nil, unix.MS_REC|unix.MS_PRIVATE, nil)
		mkdir(s, outer)
		s.Call("mount tmpfs", unix.SYS_MOUNT, "outer", outer, "tmpfs", 0, nil)
		mkdir(s, filepath.Dir(inner), inner)
		s.Call("mount tmpfs", unix.SYS_MOUNT, "inner", inner, "tmpfs", 0, nil)
		mkdir(s, filepath.Dir(deep), deep, filepath.Dir(bound), bound)
		return s
	}
	for _, c := range []struct {
		name, cwd string
		more      func(*bare.Script)
	}{
		{"the root of a mount", outer, nil},
		{"below the root of a mount", filepath.Dir(inner), nil},
		{"the root of a mount on a mount", inner, nil},
		{"below the root of a mount on a mount", deep, nil},
		{"a bound directory", bound, func(s *bare.Script) {
			s.Call("bind", unix.SYS_MOUNT, filepath.Dir(deep), bound, nil, unix.MS_BIND, nil)
		}},
		{"below a bound directory", filepath.Join(bound, "four"), func(s *bare.Script) {
			s.Call("bind", unix.SYS_MOUNT, filepath.Dir(deep), bound, nil, unix.MS_BIND, nil)
		}},
		{"one mount upon another", inner, func(s *bare.Script) {
			s.Call("mount over", unix.SYS_MOUNT, "over", inner, "tmpfs", 0, nil)
		}},
	} {
		s := steps()
		if c.more != nil {
			c.more(s)
		}
		p := t.start(s.Call("chdir", unix.SYS_CHDIR, c.cwd), []string{c.name}, 0)
		if p.truth.cwd != c.cwd {
			t.Fatalf("the scenario did not do its work: cwd is %q, not %q", p.truth.cwd, c.cwd)
		}
		exec := t.awaitEvent(p.proc, "EXEC", has(engine.EventExec))
		t.check(c.name, exec.Process, p.truth, t.fields(engine.EventExec))
		p.finish(t)
		t.wantLife(p.proc, 1)
		// It may have been made before: in the namespace it was on a mount.
		unix.Rmdir(outer)
	}
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
	t.listen()
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
		for f, inside := range map[engine.Field]string{engine.FieldCwd: cwd, engine.FieldFilename: "/self"} {
			if t.q.Capabilities().Fields[f].Origin == engine.OriginKernel {
				p.truth.value[f] = inside
			}
		}
		exec := t.awaitEvent(p.proc, "EXEC", has(engine.EventExec))
		t.check("EXEC in "+cwd, exec.Process, p.truth, t.fields(engine.EventExec))
		p.finish(t)
		t.wantLife(p.proc, 1)
	}
}
