package scenario

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	bare "github.com/quark-linux/quark/internal/barefork"
)

// args returns a scenario of a program with n arguments of some length.
func args(n, length int) func(*director) {
	return func(d *director) {
		var argv []string
		for i := range n {
			argv = append(argv, fmt.Sprintf("%0*d", length, i))
		}
		d.hold(d.script(), d.self, argv, "wait", 0, bare.Options{}, true).release()
	}
}

// argsNone executes without even an argument 0, which Linux 5.18 and later set to
// an empty one.
func argsNone(d *director) {
	d.hold(d.script(), d.self, nil, "wait", 0, bare.Options{}, true).release()
}

// link makes another name for this program.
func (d *director) link(path string) {
	if os.Link(d.self, path) != nil {
		d.copySelf(path)
	}
}

// odd returns a scenario in which directory, program and arguments have such names.
func odd(text string) func(*director) {
	return func(d *director) {
		dir := filepath.Join(d.dir, "d"+text)
		d.must(os.Mkdir(dir, 0o755))
		path := filepath.Join(dir, text+"f")
		d.link(path)
		p := d.script().call("chdir", unix.SYS_CHDIR, dir)
		d.hold(p, path, []string{text, "", "a" + text, ""}, "wait", 0, bare.Options{}, true).release()
	}
}

func hashBang(d *director) {
	// The kernel takes at most 127 or 255 bytes of the line.
	line := "#!" + d.self + " -s\n"
	if len(line) > 126 || strings.ContainsAny(d.self, " \t\n") {
		short := filepath.Join(d.dir, "interpreter")
		d.link(short)
		line = "#!" + short + " -s\n"
	}
	path := filepath.Join(d.dir, "script")
	d.must(os.WriteFile(path, []byte(line), 0o755))
	d.hold(d.script(), path, []string{"ignored", "one", "two"}, "wait", 0, bare.Options{}, true).release()
}

func memfd(d *director) {
	fd, err := unix.MemfdCreate("a program", 0)
	if err != nil {
		d.skip("memfd_create: %v", err)
	}
	f := os.NewFile(uintptr(fd), "memfd")
	defer f.Close()
	b, err := os.ReadFile(d.self)
	d.must(err)
	_, err = f.Write(b)
	d.must(err)
	p := d.script()
	h := d.prepare(p)
	d.heldFD(h, p, fd, "in memory")
}

// heldFD ends p, which h was prepared for, with the execution of an open file, and
// lets it go when it has been observed.
func (d *director) heldFD(h *held, p *process, fd int, name string) {
	p.stamp()
	p.ExecFD(fd, []string{name}, role("wait", 0, 0))
	d.start(p, bare.Options{})
	h.ready.pass(p)
	d.observe(p.pid)
	h.release()
}

func deletedProgram(d *director) {
	path := filepath.Join(d.dir, "deleted")
	d.link(path)
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	d.must(err)
	p := d.script()
	h := d.prepare(p)
	p.call("unlinkat", unix.SYS_UNLINKAT, unix.AT_FDCWD, path, 0)
	d.heldFD(h, p, fd, "deleted")
	unix.Close(fd)
}

func relative(d *director) {
	d.must(os.Symlink(d.self, filepath.Join(d.dir, "alink")))
	for _, c := range []struct{ dir, path string }{
		{filepath.Dir(d.self), "./" + filepath.Base(d.self)}, {d.dir, "alink"}, {d.dir, "../" + filepath.Base(d.dir) + "/alink"},
	} {
		p := d.script().call("chdir", unix.SYS_CHDIR, c.dir)
		d.hold(p, c.path, []string{c.path}, "wait", 0, bare.Options{}, true).release()
	}
}

// pidReuse lets one pid have several processes, one right after the other.
func pidReuse(d *director) {
	path, s := d.tiny("reused", 2, "reused")
	first := d.script().end(1)
	d.do(first)
	for i := range 20 {
		var p *process
		if i%2 == 0 {
			p = d.script().program(path, []string{"reused"}, s)
		} else {
			p = d.script().end(i)
		}
		err := d.tryStart(p, bare.Options{PID: first.pid})
		if errors.Is(err, unix.EEXIST) {
			continue // somebody else has it
		}
		if err != nil {
			d.skip("clone3 with set_tid: %v", err)
		}
		d.finish(p)
	}
}

// older has processes that are there when the monitor starts.
func older(d *director) {
	g := d.gate()
	p := d.script()
	p.WaitFor(g.r)
	p.setsid()
	h := d.prepare(p)
	p.image(d.self, []string{"grown up"}, role("wait", 7, 0))
	d.start(p, bare.Options{})
	q := d.script()
	q.WaitFor(g.r)
	q.end(8)
	d.start(q, bare.Options{})
	d.must(pause())
	g.open()
	g.open()
	h.ready.pass(p)
	d.observe(p.pid)
	h.release()
	d.finish(q)
	g.close()
}
