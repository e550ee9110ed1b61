package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
	"github.com/quark-linux/quark/internal/tinyelf"
)

const nobody = 65534

// dropPrivileges drops root, /proc and all privileges after opening the queue, in a separate
// process.
func dropPrivileges(t *test) {
	t.openEach(quark.Options{})
	path := filepath.Join(t.TempDir(), "program")
	if err := tinyelf.Write(path, 9); err != nil {
		t.Fatalf("%v", err)
	}
	program, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("%v", err)
	}
	defer unix.Close(program)
	root := t.TempDir()
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"chroot", func() error { return unix.Chroot(root) }},
		{"chdir", func() error { return unix.Chdir("/") }},
		{"setgroups", func() error { return syscall.Setgroups(nil) }},
		{"setresgid", func() error { return syscall.Setresgid(nobody, nobody, nobody) }},
		{"setresuid", func() error { return syscall.Setresuid(nobody, nobody, nobody) }},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
	}
	if _, err := os.Stat("/proc/self"); err == nil {
		t.Fatalf("the scenario failed: /proc is still there")
	}

	var all []*proc
	for i := range 10 {
		p := t.spawn(script().Call("setpgid", unix.SYS_SETPGID, 0, 0).Exit(i), barefork{Share: true})
		t.reap(p)
		all = append(all, p)
	}
	p := t.spawnStopped()
	if err := unix.Kill(p.PID, unix.SIGKILL); err != nil {
		t.Fatalf("%v", err)
	}
	t.reap(p)
	all = append(all, p)
	t.checkProcesses(0, all...)
	t.eachQueue(func(v *view) {
		for _, p := range all {
			v.checkDropped(v.awaitExit(p))
		}
	})

	// The process executes a program outside its root.
	p = t.spawn(script().ExecFD(program, []string{"dropped", "argument"}, nil), barefork{})
	t.reap(p)
	t.checkProcesses(1, p)
	t.eachQueue(func(v *view) {
		exec := v.awaitEvent(p, "EXEC", hasKinds(engine.EventExec))
		v.checkDropped(exec)
		q := exec.Process
		if q.Known.Has(engine.FieldArgs) && string(q.Image.Args) != "dropped\x00argument\x00" {
			v.Errorf("got args %q, want dropped argument", q.Image.Args)
		}
		if q.Known.Has(engine.FieldCwd) && q.Cwd != "/" {
			v.Errorf("got cwd %q, want /, as seen from the process's root", q.Cwd)
		}
		if strings.Contains(q.Image.Exe, "\x00") {
			v.Errorf("exe is %q", q.Image.Exe)
		}
	})
	t.eachQueue(func(v *view) {
		if s := v.stats(); lostEvents(s) != 0 {
			v.Errorf("got %d lost events, want 0", s.Lost())
		}
	})
}

// checkDropped checks the fields of an event without access to /proc: a field that the kernel does
// not report must be unknown, any other field correct.
func (v *view) checkDropped(ev *event) {
	q := ev.Process
	for f, want := range map[engine.Field]string{
		engine.FieldPPID: itoa(unix.Getpid()),
		engine.FieldUIDs: "65534 65534", engine.FieldSUID: "65534",
		engine.FieldGIDs: "65534 65534", engine.FieldSGID: "65534",
	} {
		c := v.q.Capabilities().Fields[f]
		need := c.Origin == engine.OriginKernel && c.At&ev.Events != 0
		if got := truth.ValueOf(q, f); q.Known.Has(f) && got != want || need && !q.Known.Has(f) {
			v.Errorf("%s: %s: got %q, known %v, want %q (%s: %s)", ev.Events, f, got, q.Known.Has(f), want, c.Origin, c.Via)
		}
	}
	if q.Known.Has(engine.FieldCaps) && q.Caps.Effective != 0 {
		v.Errorf("got effective capabilities %#x, want 0", q.Caps.Effective)
	}
}
