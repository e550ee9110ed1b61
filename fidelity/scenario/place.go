package scenario

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
	bare "github.com/quark-linux/quark/internal/barefork"
)

// at lets a process execute this program in a directory and stand still there.
func (d *director) at(p *process, cwd string) {
	h := d.hold(p.call("chdir", unix.SYS_CHDIR, cwd), d.self, []string{"cwd"}, "wait", 0, bare.Options{}, false)
	got, err := os.Readlink("/proc/" + itoa(p.pid) + "/cwd")
	d.must(err)
	d.want(got == cwd, "the working directory is %q, not %q", got, cwd)
	d.observe(p.pid)
	h.release()
}

func cwdRoot(d *director) { d.at(d.script(), "/") }

func cwdDeep(depth int) func(*director) {
	return func(d *director) {
		dir := d.dir
		for n := strings.Count(dir, "/"); n < depth; n++ {
			dir += fmt.Sprintf("/d%d", n)
		}
		d.must(os.MkdirAll(dir, 0o755))
		d.at(d.script(), dir)
	}
}

// private appends a mount namespace whose mounts are nobody else's.
func (p *process) private() *process {
	p.mayFail = true
	p.call("unshare", unix.SYS_UNSHARE, unix.CLONE_NEWNS)
	return p.call("make mounts private", unix.SYS_MOUNT, nil, "/", nil, unix.MS_REC|unix.MS_PRIVATE, nil)
}

func cwdBind(d *director) {
	from, to := filepath.Join(d.dir, "from", "deep"), filepath.Join(d.dir, "a", "mount")
	d.must(os.MkdirAll(filepath.Join(from, "below"), 0o755))
	d.must(os.MkdirAll(to, 0o755))
	for _, cwd := range []string{to, filepath.Join(to, "below")} {
		d.at(d.script().private().call("bind", unix.SYS_MOUNT, from, to, nil, unix.MS_BIND, nil), cwd)
	}
}

func cwdOverlay(d *director) {
	// An upper layer must not be on overlayfs itself, as a container's files are.
	tmp := filepath.Join(d.dir, "tmp")
	d.must(os.Mkdir(tmp, 0o755))
	p := d.script().private().call("mount tmpfs", unix.SYS_MOUNT, "tmp", tmp, "tmpfs", 0, nil)
	dirs := map[string]string{}
	for _, name := range []string{"lower", "upper", "work", "merged"} {
		dirs[name] = filepath.Join(tmp, name)
		p.call("mkdirat", unix.SYS_MKDIRAT, unix.AT_FDCWD, dirs[name], 0o755)
	}
	p.call("mkdirat", unix.SYS_MKDIRAT, unix.AT_FDCWD, dirs["lower"]+"/of lower", 0o755)
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", dirs["lower"], dirs["upper"], dirs["work"])
	p.call("mount overlay", unix.SYS_MOUNT, "overlay", dirs["merged"], "overlay", 0, options)
	d.at(p, dirs["merged"]+"/of lower")
}

func cwdDeleted(d *director) {
	dir := filepath.Join(d.dir, "goes away")
	d.must(os.Mkdir(dir, 0o755))
	p := d.script().call("chdir", unix.SYS_CHDIR, dir).call("unlinkat", unix.SYS_UNLINKAT, unix.AT_FDCWD, dir, unix.AT_REMOVEDIR)
	d.hold(p, d.self, []string{"cwd"}, "wait", 0, bare.Options{}, true).release()
}

// chdirExec changes what exec leaves alone, right before it.
func chdirExec(d *director) {
	dir := filepath.Join(d.dir, "elsewhere")
	d.must(os.Mkdir(dir, 0o755))
	path, s := d.tiny("chdir-exec", 0, "chdir-exec")
	var in truth.State
	in.Set(engine.FieldCwd, dir)
	s.Overlay(&in)
	for range 20 {
		d.do(d.script().call("chdir", unix.SYS_CHDIR, dir).look(in).program(path, []string{"chdir-exec"}, s))
	}
}

// needStatic skips unless the program runs where no loader is.
func (d *director) needStatic() {
	f, err := elf.Open(d.self)
	d.must(err)
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			d.skip("the program is linked dynamically and runs in no other root: build it with CGO_ENABLED=0")
		}
	}
}

func chroot(d *director) {
	d.needStatic()
	root := filepath.Join(d.dir, "root")
	d.must(os.MkdirAll(filepath.Join(root, "sub", "of sub"), 0o755))
	d.copySelf(filepath.Join(root, "self"))
	for _, cwd := range []string{"/", "/sub/of sub"} {
		p := d.script().call("chroot", unix.SYS_CHROOT, root).call("chdir", unix.SYS_CHDIR, cwd)
		p.mayFail = true
		d.hold(p, "/self", []string{"chroot"}, "inside", 0, bare.Options{}, true).release()
	}
}

func pivotRoot(d *director) {
	d.needStatic()
	root := filepath.Join(d.dir, "new")
	d.must(os.Mkdir(root, 0o755))
	p := d.script().private().unsettled(engine.FieldCwd.Set())
	if d.rootIsFirst() {
		// It can't be exchanged, but another root on top of it can.
		other := filepath.Join(d.dir, "other")
		d.must(os.Mkdir(other, 0o755))
		p.call("bind", unix.SYS_MOUNT, "/", other, nil, unix.MS_BIND|unix.MS_REC, nil)
		p.call("chroot", unix.SYS_CHROOT, other)
	}
	p.call("mount tmpfs", unix.SYS_MOUNT, "new", root, "tmpfs", 0, nil)
	p.call("mkdirat", unix.SYS_MKDIRAT, unix.AT_FDCWD, root+"/old", 0o755)
	p.call("mkdirat", unix.SYS_MKDIRAT, unix.AT_FDCWD, root+"/bin", 0o755)
	p.call("bind", unix.SYS_MOUNT, filepath.Dir(d.self), root+"/bin", nil, unix.MS_BIND, nil)
	p.call("pivot_root", unix.SYS_PIVOT_ROOT, root, root+"/old")
	p.call("chdir", unix.SYS_CHDIR, "/").call("umount2", unix.SYS_UMOUNT2, "/old", unix.MNT_DETACH)
	p.call("chdir", unix.SYS_CHDIR, "/bin")
	d.hold(p, "/bin/"+filepath.Base(d.self), []string{"pivoted"}, "inside", 0, bare.Options{}, true).release()
}

// rootIsFirst reports whether the root is what the kernel unpacked an initramfs to,
// with no mount below it.
func (d *director) rootIsFirst() bool {
	b, err := os.ReadFile("/proc/self/mountinfo")
	d.must(err)
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 4 && f[4] == "/" && f[0] == f[1] { // a mount that is its own parent
			return true
		}
	}
	return false
}

func nsPID(d *director) {
	h := &held{ready: d.gate(), goOn: d.gate()}
	child := d.script()
	child.call("dup3", unix.SYS_DUP3, h.goOn.r, goFD, 0).call("dup3", unix.SYS_DUP3, h.ready.w, readyFD, 0)
	child.image(d.self, []string{"first"}, role("wait", 6, 0))
	p := d.script()
	p.mayFail = true
	p.call("unshare", unix.SYS_UNSHARE, unix.CLONE_NEWPID)
	h.process = d.start(p.child(0, child).awaitChild().end(0), bare.Options{})
	h.ready.pass(p)
	d.observe(p.run.Thread(1))
	h.release()
}

func nsUser(d *director) {
	p := d.script()
	p.mayFail = true
	p.unsettled(engine.FieldCaps.Set())
	p.call("unshare", unix.SYS_UNSHARE, unix.CLONE_NEWUSER)
	h := d.prepare(p)
	second := d.gate()
	p.Tell(second.w).WaitFor(h.goOn.r)
	// Root inside is 3000 outside: as the overflow id before the map is written.
	p.image(d.self, []string{"user"}, role("inside", 0, 0))
	d.start(p, bare.Options{})
	second.pass(p)
	if err := os.WriteFile("/proc/"+itoa(p.pid)+"/uid_map", []byte("0 0 1\n1 3001 10\n"), 0); err != nil {
		d.skip("write uid_map: %v", err)
	}
	d.must(os.WriteFile("/proc/"+itoa(p.pid)+"/gid_map", []byte("0 0 1\n1 4001 10\n"), 0))
	d.observe(p.pid)
	h.goOn.open()
	h.ready.pass(p)
	d.observe(p.pid)
	h.release()
}

func nsOthers(d *director) {
	for _, ns := range []struct {
		flag  int
		field engine.Field
	}{
		{unix.CLONE_NEWNS, engine.FieldMntNS}, {unix.CLONE_NEWNET, engine.FieldNetNS},
		{unix.CLONE_NEWUTS, engine.FieldUTSNS}, {unix.CLONE_NEWIPC, engine.FieldIPCNS},
	} {
		p := d.script()
		p.mayFail = true
		p.call("unshare", unix.SYS_UNSHARE, ns.flag)
		d.hold(p, d.self, []string{ns.field.String()}, "wait", 0, bare.Options{}, true).release()
	}
}

func pty(d *director) {
	master, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		d.skip("open /dev/ptmx: %v", err)
	}
	defer unix.Close(master)
	d.must(unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(master, unix.TIOCGPTN)
	d.must(err)
	slave, err := unix.Open("/dev/pts/"+itoa(n), unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		d.skip("open the terminal: %v", err)
	}
	defer unix.Close(slave)
	p := d.script().setsid().call("TIOCSCTTY", unix.SYS_IOCTL, slave, unix.TIOCSCTTY, 0)
	d.hold(p, d.self, []string{"on a terminal"}, "wait", 0, bare.Options{}, true).release()
}
