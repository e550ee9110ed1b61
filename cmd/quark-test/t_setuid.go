package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
)

// setuidExec executes programs that take the ids of their file.
func setuidExec(t *test) {
	t.watch()
	dir := t.TempDir()
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		t.Fatalf("%v", err)
	}
	if fs.Flags&unix.ST_NOSUID != 0 {
		t.Skipf("%s is mounted nosuid", dir)
	}
	if status, err := os.ReadFile("/proc/self/status"); err != nil || strings.Contains(string(status), "NoNewPrivs:\t1") {
		t.Skipf("set-id programs have no effect here: no_new_privs is set (%v)", err)
	}
	const user, group = 2002, 2001
	var all []*program
	for _, c := range []struct {
		name     string
		uid, gid int
		mode     uint32
		uids     string // real and effective
		gids     string
	}{
		{"setuid to root", 0, 0, 0o4755, "2002 0", "2001 2001"},
		{"setuid to another", 1234, 1235, 0o4755, "2002 1234", "2001 2001"},
		{"setgid", 1234, 1235, 0o2755, "2002 2002", "2001 1235"},
		{"both", 1234, 1235, 0o6755, "2002 1234", "2001 1235"},
	} {
		path := filepath.Join(dir, fmt.Sprintf("%o-%d", c.mode, c.uid))
		t.writeProgram(path, 0)
		// A change of the owner takes the bits away.
		if err := os.Chown(path, c.uid, c.gid); err != nil {
			t.Fatalf("%v", err)
		}
		if err := unix.Chmod(path, c.mode); err != nil {
			t.Fatalf("%v", err)
		}
		s := script().
			Call("setgroups", unix.SYS_SETGROUPS, 0, nil).
			Call("setresgid", unix.SYS_SETRESGID, group, group, group).
			Call("setresuid", unix.SYS_SETRESUID, user, user, user)
		p := t.execute(s, path, []string{c.name}, inCopy)
		if u, g := p.truth.value[engine.FieldUIDs], p.truth.value[engine.FieldGIDs]; u != c.uids || g != c.gids {
			t.Fatalf("%s: the scenario did not do its work: uids %s, gids %s", c.name, u, g)
		}
		p.name = c.name
		all = append(all, p)
	}
	t.each(func(v *view) {
		for _, p := range all {
			v.awaitEvent(p.proc, "EXEC", has(engine.EventExec))
			if known := v.q.Lookup(uint32(p.PID)); known == nil {
				v.Errorf("%s: process %d is not known", p.name, p.PID)
			} else {
				v.check(p.name+", the table", known, p.truth, v.fields(engine.EventExec))
			}
		}
	})
	t.wantExecs(all...)
}
