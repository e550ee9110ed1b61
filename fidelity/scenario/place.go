package scenario

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
)

// at lets a process execute a program in a directory and wait there.
func (d *director) at(p *process, cwd string) {
	h := d.hold(p.call("chdir", unix.SYS_CHDIR, cwd), d.waiter(0), "cwd")
	got, err := os.Readlink("/proc/" + itoa(p.pid) + "/cwd")
	d.must(err)
	d.want(got == cwd, "the working directory is %q, not %q", got, cwd)
	h.release()
}

func cwdRoot(d *director) { d.at(d.light(), "/") }

// wholePath is the number of directories up to which a path must not be truncated.
const wholePath = 90

func cwdDeep(depth int) func(*director) {
	return func(d *director) {
		dir := d.dir
		for n := strings.Count(dir, "/"); n < depth; n++ {
			dir += fmt.Sprintf("/d%d", n)
		}
		d.must(os.MkdirAll(dir, 0o755))
		p := d.light()
		if depth > wholePath {
			p.mayCut(engine.FieldCwd.Set())
		}
		d.at(p, dir)
	}
}

// cwdLongNames uses a working directory whose path is close to PATH_MAX, with names close to
// NAME_MAX.
func cwdLongNames(d *director) {
	dir := d.mkdir(strings.Repeat(strings.Repeat("x", 250)+"/", 15))
	d.at(d.light().mayCut(engine.FieldCwd.Set()), dir)
}

// private appends system calls that give the process its own mount namespace.
func (p *process) private() *process {
	p.mayFail = true
	p.switchNS([]string{"mnt"}, "unshare", unix.SYS_UNSHARE, unix.CLONE_NEWNS)
	return p.call("make mounts private", unix.SYS_MOUNT, nil, "/", nil, unix.MS_REC|unix.MS_PRIVATE, nil)
}

func cwdBind(d *director) {
	from, to := d.mkdir("from", "deep"), d.mkdir("a", "mount")
	d.mkdir("from", "deep", "below")
	for _, cwd := range []string{to, filepath.Join(to, "below")} {
		d.at(d.light().private().call("bind", unix.SYS_MOUNT, from, to, nil, unix.MS_BIND, nil), cwd)
	}
}

func (p *process) mkdirs(dirs ...string) *process {
	for _, d := range dirs {
		p.call("mkdirat", unix.SYS_MKDIRAT, unix.AT_FDCWD, d, 0o755)
	}
	return p
}

func (p *process) tmpfs(dir string) *process {
	return p.call("mount tmpfs", unix.SYS_MOUNT, "tmp", dir, "tmpfs", 0, nil)
}

// cwdMounts uses the listed working directories in nested mounts. The directories are parts of
// TOP/one/inner/three/four, with mounts on TOP and on TOP/one/inner.
func cwdMounts(d *director) {
	for i, c := range []struct {
		cwd  string
		over bool // a second mount covers TOP/one/inner
		bind bool // TOP/one/inner/three is bind-mounted on TOP/bound
	}{
		{cwd: ""}, {cwd: "one"}, {cwd: "one/inner"}, {cwd: "one/inner/three/four"}, {cwd: "one/inner", over: true},
		{cwd: "bound", bind: true}, {cwd: "bound/four", bind: true},
	} {
		top := d.mkdir(fmt.Sprint("top", i))
		inner := filepath.Join(top, "one", "inner")
		p := d.light().private().tmpfs(top).mkdirs(filepath.Dir(inner), inner).tmpfs(inner)
		p.mkdirs(inner+"/three", inner+"/three/four")
		if c.over {
			p.tmpfs(inner)
		}
		if c.bind {
			bound := filepath.Join(top, "bound")
			p.mkdirs(bound).call("bind", unix.SYS_MOUNT, inner+"/three", bound, nil, unix.MS_BIND, nil)
		}
		d.at(p, filepath.Join(top, c.cwd))
	}
}

// cwdDeepMounts uses working directories at a depth of 16 and more, in one mount and in nested
// mounts. A kernel event may lack room for such a path. /proc has the whole path while the process
// runs; the path of a short-lived process may be truncated.
func cwdDeepMounts(d *director) {
	path, s := d.tiny("ended", 0, "ended")
	// Numbers of directories in each mount, from the outermost inwards.
	for i, shape := range [][]int{{16}, {8, 8}, {5, 6, 6}, {4, 4, 4, 4}, {3, 3, 3, 3, 3, 3}, {20, 20}} {
		top := d.mkdir(fmt.Sprint("deep", i))
		build := func() (p *process, cwd string) {
			p, cwd = d.light().private().tmpfs(top), top
			for m, n := range shape {
				for k := range n {
					cwd += fmt.Sprintf("/m%dd%02d", m, k)
					p.mkdirs(cwd)
					// the next mount point is the first directory
					if m > 0 && k == 0 {
						p.tmpfs(cwd)
					}
				}
			}
			return p, cwd
		}
		p, cwd := build()
		d.at(p, cwd)
		p, _ = build()
		d.do(p.enterDir(cwd).program(path, []string{"ended"}, s))
	}
}

func cwdOverlay(d *director) {
	// An upper layer must not be on overlayfs, on which containers have their files.
	tmp := d.mkdir("tmp")
	p := d.light().private().tmpfs(tmp)
	dirs := map[string]string{}
	for _, name := range []string{"lower", "upper", "work", "merged"} {
		dirs[name] = filepath.Join(tmp, name)
		p.mkdirs(dirs[name])
	}
	p.mkdirs(dirs["lower"] + "/of lower")
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", dirs["lower"], dirs["upper"], dirs["work"])
	p.call("mount overlay", unix.SYS_MOUNT, "overlay", dirs["merged"], "overlay", 0, options)
	d.at(p, dirs["merged"]+"/of lower")
}

// execOverlay executes a program on an overlay without an upper layer, and on an overlay with both
// layers on one file system. In both cases stat(2) returns the device and inode of the overlay.
func execOverlay(d *director) {
	lower, other, merged := d.mkdir("lower"), d.mkdir("other"), d.mkdir("merged")
	d.writeWaiter(filepath.Join(lower, "program"), 0)
	p := d.light().private().call("mount overlay", unix.SYS_MOUNT, "overlay", merged, "overlay", 0, "lowerdir="+lower+":"+other)
	program := filepath.Join(merged, "program")
	d.hold(p.errorTo(program), program, "overlay").release()
}

// cwdDetached uses a working directory, and then also a program, on a mount that was detached while
// in use, so that they have no path.
func cwdDetached(d *director) {
	files := d.mkdir("files")
	d.writeWaiter(filepath.Join(files, "inside"), 0)
	for _, c := range []struct {
		program string
		fields  engine.Fields
	}{
		{d.waiter(0), engine.FieldCwd.Set()},
		{"./inside", engine.FieldCwd.Set() | engine.FieldExe.Set()},
	} {
		top := d.mkdir("detached")
		p := d.light().private().call("bind", unix.SYS_MOUNT, files, top, nil, unix.MS_BIND, nil)
		p.enterDir(top).call("umount2", unix.SYS_UMOUNT2, top, unix.MNT_DETACH)
		d.hold(p.now(truth.Record{Op: truth.Now, Unreachable: c.fields}), c.program, "detached").release()
	}
}

// holdInside is hold for a process in another root directory. program and cwd are paths as the
// process sees them.
func (d *director) holdInside(p *process, program, cwd string) {
	h := d.prepare(p)
	h.inside.Set(engine.FieldExe, program)
	h.inside.Set(engine.FieldCwd, cwd)
	p.image(program, []string{"inside"}, nil)
	d.start(p)
	h.await()
	h.release()
}

func chroot(d *director) {
	root := d.mkdir("root")
	d.mkdir("root", "sub", "of sub")
	d.writeWaiter(filepath.Join(root, "self"), 0)
	for _, cwd := range []string{"/", "/sub", "/sub/of sub"} {
		p := d.light().unsettled(engine.FieldCwd.Set())
		p.call("chroot", unix.SYS_CHROOT, root).call("chdir", unix.SYS_CHDIR, cwd)
		p.mayFail = true
		d.holdInside(p, "/self", cwd)
	}
}

func pivotRoot(d *director) {
	root, bin := d.mkdir("new"), d.mkdir("bin")
	d.writeWaiter(filepath.Join(bin, "program"), 0)
	p := d.light().private().unsettled(engine.FieldCwd.Set())
	if d.onRootfs() {
		// pivot_root cannot replace rootfs itself, but can replace a bind mount of it.
		other := d.mkdir("other")
		p.call("bind", unix.SYS_MOUNT, "/", other, nil, unix.MS_BIND|unix.MS_REC, nil)
		p.call("chroot", unix.SYS_CHROOT, other)
	}
	p.tmpfs(root).mkdirs(root+"/old", root+"/bin")
	p.call("bind", unix.SYS_MOUNT, bin, root+"/bin", nil, unix.MS_BIND, nil)
	p.call("pivot_root", unix.SYS_PIVOT_ROOT, root, root+"/old")
	p.call("chdir", unix.SYS_CHDIR, "/").call("umount2", unix.SYS_UMOUNT2, "/old", unix.MNT_DETACH)
	p.call("chdir", unix.SYS_CHDIR, "/bin")
	d.holdInside(p, "/bin/program", "/bin")
}

// onRootfs reports whether the root is the kernel's rootfs, which has the unpacked initramfs.
func (d *director) onRootfs() bool {
	b, err := os.ReadFile("/proc/self/mountinfo")
	d.must(err)
	for line := range strings.Lines(string(b)) {
		// Only rootfs is its own parent mount.
		if f := strings.Fields(line); len(f) > 4 && f[4] == "/" && f[0] == f[1] {
			return true
		}
	}
	return false
}

// nsEnter lets a process enter namespaces of each kind, which another process created.
func nsEnter(d *director) {
	for _, name := range slices.Sorted(maps.Keys(namespaces)) {
		ns, link := namespaces[name], namespaces[name].link
		if !ns.available() {
			continue // for example time namespaces before Linux 5.6
		}
		first, second := d.script(), d.script()
		first.mayFail, second.mayFail = true, true
		var inside *held
		of := first
		if name == "time" {
			first.call("unshare", unix.SYS_UNSHARE, ns.flag) // no event
		} else {
			first.switchNS([]string{name}, "unshare", unix.SYS_UNSHARE, ns.flag)
		}
		switch name {
		case "pid":
			of = d.script()
			of.fresh = ns.changes()
			inside = d.holdChild(first, of, "first")
		case "time":
			link += "_for_children"
			fallthrough
		default:
			inside = d.hold(first, d.waiter(0), "has "+name)
		}
		fd := d.keep(unix.Open("/proc/"+itoa(of.pid)+"/"+link, unix.O_RDONLY|unix.O_CLOEXEC, 0))
		second.switchNS([]string{name}, "setns", unix.SYS_SETNS, fd, ns.flag)
		if name == "pid" {
			child := d.script()
			child.fresh = ns.changes()
			d.holdChild(second, child, "second").release()
		} else {
			d.holdTwice(second, "enters "+name, func() {})
		}
		inside.release()
	}
}

func nsUser(d *director) {
	p := d.script()
	p.mayFail = true
	p.switchNS([]string{"user"}, "unshare", unix.SYS_UNSHARE, unix.CLONE_NEWUSER)
	d.holdTwice(p, "user", func() {
		if err := os.WriteFile("/proc/"+itoa(p.pid)+"/uid_map", []byte("0 0 1\n1 3001 10\n"), 0); err != nil {
			d.skip("write uid_map: %v", err)
		}
		d.must(os.WriteFile("/proc/"+itoa(p.pid)+"/gid_map", []byte("0 0 1\n1 4001 10\n"), 0))
	})
}

// terminal opens a pseudo terminal, and returns the slave side, for processes.
func (d *director) terminal() (slave int) {
	master, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		d.skip("open /dev/ptmx: %v", err)
	}
	d.fds = append(d.fds, master)
	d.must(unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(master, unix.TIOCGPTN)
	d.must(err)
	slave, err = unix.Open("/dev/pts/"+itoa(n), unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		d.skip("open the terminal: %v", err)
	}
	d.fds = append(d.fds, slave)
	return slave
}

// stdioShared executes programs with a file of tmpfs as standard error, and in a child that shares
// its files with its parent.
func stdioShared(d *director) {
	dir := d.mkdir("tmpfs")
	d.hold(d.light().private().tmpfs(dir).errorTo(filepath.Join(dir, "file")), d.waiter(0), "tmpfs").release()
	d.holdCloned(d.script(), d.script(), unix.CLONE_FILES, "shares").release()
}

// errorTo appends the replacement of standard error by a file.
func (p *process) errorTo(path string) *process {
	return p.call("close", unix.SYS_CLOSE, 2).call("openat", unix.SYS_OPENAT, unix.AT_FDCWD, path, unix.O_RDONLY|unix.O_CREAT, 0o600)
}

func pty(d *director) {
	slave := d.terminal()
	p := d.script().setsid().call("TIOCSCTTY", unix.SYS_IOCTL, slave, unix.TIOCSCTTY, 0)
	d.hold(p, d.waiter(0), "on a terminal").release()
}
