package scenario

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
)

// args returns a scenario of a program with n arguments of at least the given length.
func args(n, length int) func(*director) {
	return func(d *director) {
		var argv []string
		for i := range n {
			argv = append(argv, fmt.Sprintf("%0*d", length, i))
		}
		p := d.light()
		if n*length > 16<<10 {
			p.mayCut(engine.FieldArgs.Set())
		}
		d.hold(p, d.waiter(0), argv...).release()
	}
}

// argsSizes executes programs that end at once: with 2,000 empty arguments, and with command lines
// shorter and longer than the room in a kernel event.
func argsSizes(d *director) {
	const name = "args-sizes"
	lines := [][]string{append([]string{name}, make([]string, 2000)...)}
	for _, size := range []int{1, 400, 500, 1500, 4000, 4096, 20000, 100000} {
		lines = append(lines, []string{name, strings.Repeat("a", size), "\xff\xfe\n\""})
	}
	path, s := d.tiny(name, 7)
	for _, argv := range lines {
		s.Set(engine.FieldArgs, cmdline(argv))
		d.do(d.light().mayCut(engine.FieldArgs.Set()).program(path, argv, s))
	}
}

// odd returns a scenario with text in the names of the directory and the program, and in the
// arguments.
func odd(text string) func(*director) {
	return func(d *director) {
		dir := d.mkdir("d" + text)
		path := filepath.Join(dir, text+"f")
		d.writeWaiter(path, 0)
		d.hold(d.light().call("chdir", unix.SYS_CHDIR, dir), path, text, "", "a"+text, "\x80", "").release()
	}
}

func relative(d *director) {
	program := d.waiter(0)
	links := d.mkdir("links")
	d.must(os.Symlink(program, filepath.Join(links, "alink")))
	for _, c := range []struct{ dir, path string }{
		{d.dir, "./" + filepath.Base(program)}, {links, "alink"}, {links, "../" + filepath.Base(links) + "/alink"},
	} {
		d.hold(d.light().call("chdir", unix.SYS_CHDIR, c.dir), c.path, c.path).release()
	}
}

// pidReuse gives the same pid to several processes, each right after the end of the previous one.
func pidReuse(d *director) {
	path, s := d.tiny("reused", 2, "reused")
	first := d.script().end(1)
	d.do(first)
	for i := range scale(20, 6) {
		var p *process
		if i%2 == 0 {
			p = d.script().program(path, []string{"reused"}, s)
		} else {
			p = d.script().end(i)
		}
		p.opts.PID = first.pid
		err := d.tryStart(p)
		if errors.Is(err, unix.EEXIST) {
			continue // another process has the pid
		}
		if err != nil {
			d.skip("clone3 with set_tid: %v", err)
		}
		d.finish(p)
	}
}

// pidReuseLater reuses a pid so late that the start times in /proc, in ticks, differ. If read is
// set, the queues are read while the first process runs.
func pidReuseLater(read bool) func(*director) {
	return func(d *director) {
		before := time.Now()
		first := d.script()
		if read {
			d.hold(first, d.waiter(11), "first").release()
		} else {
			d.do(first.end(11))
		}
		time.Sleep(3*engine.ProcStartUnit - time.Since(before))
		second := d.script()
		second.opts.PID, second.mayFail = first.pid, true // may be reused
		d.hold(second, d.waiter(12), "second").release()
	}
}

// older starts processes before the queues are opened.
func older(d *director) {
	g := d.gate()
	p := d.script()
	p.WaitFor(g.r)
	p.setsid()
	h := d.prepare(p)
	p.image(d.waiter(7), []string{"grown up"}, nil)
	d.start(p)
	q := d.script()
	q.WaitFor(g.r)
	q.end(8)
	d.start(q)
	d.awaitReaders(d.pid)
	g.open()
	g.open()
	h.await()
	h.release()
	d.finish(q)
}
