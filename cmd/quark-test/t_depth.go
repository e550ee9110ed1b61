package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine"
	bare "github.com/quark-linux/quark/internal/barefork"
	"github.com/quark-linux/quark/internal/tinyelf"
)

// deepMountCwd executes in directories 16 and more components deep, in one mount
// and in mounts below mounts. While the process lives what the kernel's event has
// no room for can be had from /proc; of one that has ended it has to be marked as
// cut. Neither may be wrong.
func deepMountCwd(t *test) {
	t.watch()
	tiny := filepath.Join(t.TempDir(), "tiny")
	if err := tinyelf.Write(tiny, 0); err != nil {
		t.Fatalf("%v", err)
	}
	type deep struct {
		*program        // that lives on
		short    *proc  // one that ends at once
		dir      string // of both, each in a namespace of its own
	}
	var all []deep
	// How many directories are in each mount, from the outermost inwards.
	for _, shape := range [][]int{{16}, {8, 8}, {5, 6, 6}, {4, 4, 4, 4}, {3, 3, 3, 3, 3, 3}, {20, 20}} {
		top := t.TempDir()
		build := func() (*bare.Script, string) {
			s := script().Call("unshare", unix.SYS_UNSHARE, unix.CLONE_NEWNS).
				Call("make mounts private", unix.SYS_MOUNT, nil, "/", nil, unix.MS_REC|unix.MS_PRIVATE, nil)
			s.Call("mount tmpfs", unix.SYS_MOUNT, "top", top, "tmpfs", 0, nil)
			dir := top
			for m, n := range shape {
				for i := range n {
					dir += fmt.Sprintf("/m%dd%02d", m, i)
					mkdir(s, dir)
					if m > 0 && i == 0 { // the mount lies on the first directory
						s.Call("mount tmpfs", unix.SYS_MOUNT, "deep", dir, "tmpfs", 0, nil)
					}
				}
			}
			return s.Call("chdir", unix.SYS_CHDIR, dir), dir
		}
		s, dir := build()
		d := deep{program: t.start(s, []string{"deep"}, 0), dir: dir}
		if d.truth.cwd != dir {
			t.Fatalf("the scenario did not do its work: cwd is %q, not %q", d.truth.cwd, dir)
		}
		d.name = fmt.Sprint(shape)
		s, _ = build()
		d.short = t.spawn(s.Exec(tiny, []string{"tiny"}, nil), barefork{Share: true})
		t.reapBlind(d.short)
		all = append(all, d)
	}
	var alive []*program
	var ended []*proc
	t.each(func(v *view) {
		for _, d := range all {
			exec := v.awaitEvent(d.proc, "EXEC", has(engine.EventExec)).Process
			v.checkDeep(d.name+", alive", exec, d.dir, true)
			exec = v.awaitEvent(d.short, "EXEC", has(engine.EventExec)).Process
			v.checkDeep(d.name+", ended", exec, d.dir, false)
		}
	})
	for _, d := range all {
		alive, ended = append(alive, d.program), append(ended, d.short)
	}
	t.finishAll(alive...)
	t.wantLives(1, ended...)
}

// checkDeep checks that a working directory is dir, or said to be its end.
func (v *view) checkDeep(what string, p *quark.Process, dir string, alive bool) {
	known, cut := p.Known.Has(engine.FieldCwd), p.Truncated.Has(engine.FieldCwd)
	v.Logf("%s: %d of %d components, known %v, cut %v", what, strings.Count("/"+strings.TrimPrefix(p.Cwd, "/"), "/"), strings.Count(dir, "/"), known, cut)
	switch {
	case !known:
		if alive {
			v.Errorf("%s: cwd is unknown", what)
		}
	case cut && (!strings.HasSuffix(dir, "/"+p.Cwd) || p.Cwd == ""):
		v.Errorf("%s: cwd is marked as cut, but %q is not the end of %q", what, p.Cwd, dir)
	case cut && alive:
		v.Errorf("%s: cwd is cut: %q", what, p.Cwd)
	case !cut && p.Cwd != dir:
		v.Errorf("%s: cwd is %q, want %q", what, p.Cwd, dir)
	}
}
