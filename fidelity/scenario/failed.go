package scenario

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/fidelity/truth"
)

// execFails appends an execve(2) that must fail with the given errno. If path is not a string, it
// is an unreadable address.
func (p *process) execFails(with unix.Errno, path any, argv ...string) *process {
	f := truth.Failed{Errno: int(with)}
	if s, ok := path.(string); ok {
		f.Path, f.MayCut = s, len(s) >= unix.PathMax
	} else {
		f.NoPath = true
	}
	return p.failed(f, "execve", unix.SYS_EXECVE, path, argv, nil)
}

// execAtFails appends an execveat(2) that must fail with the given errno. An empty path means the
// file of dir itself.
func (p *process) execAtFails(with unix.Errno, dir int, path string) *process {
	f, flags := truth.Failed{Errno: int(with), Path: path}, 0
	switch {
	case path == "":
		f.Path, flags = fmt.Sprintf("/dev/fd/%d", dir), unix.AT_EMPTY_PATH
	case dir != unix.AT_FDCWD && !filepath.IsAbs(path):
		f.Path = fmt.Sprintf("/dev/fd/%d/%s", dir, path)
	}
	return p.failed(f, "execveat", unix.SYS_EXECVEAT, dir, path, []string{"x"}, nil, flags)
}

func (p *process) failed(f truth.Failed, name string, number uintptr, args ...any) *process {
	before := p.stamp()
	p.steps = append(p.steps, step{call: p.Len(), before: before, record: truth.Record{Op: truth.ExecFailed, Failed: f}})
	p.Call(name, number, args...).Fails(unix.Errno(f.Errno))
	p.stamp()
	return p
}

// execFailed runs execs that fail for every reason that a file, a path or arguments can cause.
func execFailed(d *director) {
	file := func(name string, content string, mode os.FileMode) string {
		path := filepath.Join(d.dir, name)
		d.must(os.WriteFile(path, []byte(content), mode))
		return path
	}
	plain, garbage := file("plain", "no program", 0o644), file("garbage", "no program", 0o755)
	missing, loop, broken := filepath.Join(d.dir, "missing"), filepath.Join(d.dir, "loop"), file("script", "#!"+d.dir+"/none\n", 0o755)
	d.must(os.Symlink("loop", loop))
	dir := d.keep(unix.Open(d.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0))
	fd := d.keep(unix.Open(plain, unix.O_RDONLY|unix.O_CLOEXEC, 0))

	p := d.script()
	p.execFails(unix.ENOENT, missing).execFails(unix.EACCES, plain).execFails(unix.ENOEXEC, garbage, "garbage").
		execFails(unix.ELOOP, loop).execFails(unix.ENOTDIR, plain+"/x").execFails(unix.ENOENT, broken).execFails(unix.EACCES, d.dir).
		execFails(unix.E2BIG, d.waiter(0), strings.Repeat("a", 200<<10)).execFails(unix.ENOENT, "").
		execFails(unix.ENAMETOOLONG, "/"+strings.Repeat("/a", 2500)).execFails(unix.ENAMETOOLONG, "/"+strings.Repeat("n", 300)).
		execFails(unix.EFAULT, 1).enterDir(d.dir).execFails(unix.ENOENT, "./missing").
		execFails(unix.ENOENT, strings.Repeat("./", 1000)+"missing")
	d.do(p.end(1))

	p = d.script()
	p.execAtFails(unix.ENOENT, dir, "missing").execAtFails(unix.EACCES, dir, "plain").execAtFails(unix.EACCES, fd, "").
		execAtFails(unix.ENOENT, fd, missing).execAtFails(unix.ENOENT, unix.AT_FDCWD, "missing").execAtFails(unix.EBADF, 1<<20, "missing")
	d.do(p.end(2))

	// A child that shares its parent's memory searches three directories for the program, as
	// posix_spawn(3) does.
	search, path, s := d.script(), "", truth.State{}
	path, s = d.tiny("found", 3, "found")
	child := d.script()
	child.flags = unix.CLONE_VM | unix.CLONE_VFORK
	for i := range 3 {
		child.execFails(unix.ENOENT, fmt.Sprintf("%s/bin%d/found", d.dir, i), "found")
	}
	child.program(path, []string{"found"}, s)
	d.do(search.child(child.flags, child).awaitChild().end(3))

	// A thread's exec fails, and its process continues.
	g, done := d.gate(), d.gate()
	thread := d.script()
	thread.thread = true
	thread.execFails(unix.ENOENT, missing).Notify(g.w).Stop()
	p = d.script()
	p.startThread(thread).WaitFor(done.r)
	d.observeAt(p.end(4), g, done)

	// The exec of a process that shares its memory with a running process fails.
	d.do(d.light().execFails(unix.ENOENT, missing).program(path, []string{"found"}, s))
}
