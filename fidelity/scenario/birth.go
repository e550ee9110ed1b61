package scenario

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
	bare "github.com/quark-linux/quark/internal/barefork"
	"github.com/quark-linux/quark/internal/tinyelf"
)

func forkExecExit(d *director) {
	for code := range scale(3, 1) {
		d.do(d.light().image(d.self, []string{"fork-exec-exit", "a b", ""}, role("report", code, 0)))
	}
	for range scale(1, 3) {
		// The process has a group of its own, so its group leader is not its parent.
		p := d.light().call("chdir", unix.SYS_CHDIR, d.dir).leadGroup()
		d.hold(p, d.waiter(7), "true", "this", "", "is", "nop!").release()
	}
}

func forkFailed(d *director) {
	const nowhere = 1 // invalid address for the descriptor, at which clone fails late
	p, born := d.script(), new(bare.Script).Exit(4)
	call := p.Len()
	p.Start(born, "clone", unix.SYS_CLONE, unix.CLONE_PIDFD|int(unix.SIGCHLD), 0, nowhere, 0, 0).Fails(unix.EFAULT)
	d.start(p.end(3))
	e := d.reap(p.pid)
	if pid, ok := p.run.Result(0, call); ok && pid > 0 {
		d.skip("the kernel has no CLONE_PIDFD (Linux 5.2): no fork fails late")
	}
	d.finishReaped(p, e)
}

// tiny creates a program that ends at once, and returns its path and the state of a process that
// has executed it.
func (d *director) tiny(name string, code int, argv ...string) (path string, s truth.State) {
	path = filepath.Join(d.dir, name)
	d.must(tinyelf.Write(path, uint8(code)))
	s.Set(engine.FieldComm, commOf(name))
	s.Set(engine.FieldExe, path)
	s.Set(engine.FieldArgs, cmdline(argv))
	return path, s
}

func commOf(name string) string { return name[:min(len(name), 15)] }

func cmdline(argv []string) string { return strings.Join(argv, "\x00") + "\x00" }

func shortLives(d *director) {
	argv := []string{"short-life", "x"}
	path, s := d.tiny("short-life", 5, argv...)
	// On a busy machine the first processes may all be slow.
	const short, most = 50 * time.Millisecond, 200
	for n, seen := 0, false; n < scale(50, 10) || !seen && n < most; n++ {
		begun := time.Now()
		d.wantCode(d.do(d.light().program(path, argv, s)), 5)
		seen = seen || time.Since(begun) < short
	}
}

func posixSpawn(d *director) {
	d.wantCode(d.reapSpawned(d.spawn("spawned", &syscall.ProcAttr{Env: role("report", 3, 0), Files: []uintptr{0, 1, 2}})), 3)
}

// threadForks starts a process from another thread of the director.
func threadForks(d *director) {
	p, started := d.light().end(2), make(chan error)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	go func() { started <- d.tryStart(p) }()
	d.must(<-started)
	d.want(p.parentTID != unix.Gettid(), "the thread is the same")
	d.finish(p)
}

func cloneParent(d *director) {
	child := d.script().image(d.self, []string{"sibling"}, role("report", 2, 0))
	d.do(d.script().child(unix.CLONE_PARENT, child).end(1))
}

// makeCgroup creates the n-th cgroup of a scenario, and returns its directory and its path as in
// /proc/PID/cgroup.
func (d *director) makeCgroup(n int) (dir, path string) {
	_, s, err := d.proc.Read("self")
	d.must(err)
	path = filepath.Join(s.Value[engine.FieldCgroup], fmt.Sprintf("quark fidelity-%d-%d", d.pid, n))
	dir = d.cgroupMount() + path
	if err := os.Mkdir(dir, 0o755); err != nil {
		d.skip("make a cgroup: %v", err)
	}
	return dir, path
}

// cgroupMount returns the mount point of the hierarchy that quark reports: cgroup2, or the pids
// controller of cgroup v1.
func (d *director) cgroupMount() string {
	for _, at := range []struct {
		mount string
		magic int64
	}{
		{"/sys/fs/cgroup", unix.CGROUP2_SUPER_MAGIC},
		{"/sys/fs/cgroup/unified", unix.CGROUP2_SUPER_MAGIC},
		{"/sys/fs/cgroup/pids", unix.CGROUP_SUPER_MAGIC},
	} {
		var fs unix.Statfs_t
		if unix.Statfs(at.mount, &fs) == nil && fs.Type == at.magic {
			return at.mount
		}
	}
	d.skip("neither cgroup2 is mounted nor the pids controller of cgroup v1")
	return ""
}

func cloneNamespaces(d *director) {
	p := d.script()
	p.fresh, p.mayFail = engine.FieldsNS, true
	p.opts.Flags = unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWNET
	d.holdTwice(p, "in namespaces", func() {})
}

const noRandomAddresses = 0x0040000 // ADDR_NO_RANDOMIZE, linux/personality.h

// chain returns a scenario in which a process executes n times.
func chain(n int, personality ...int) func(*director) {
	return func(d *director) {
		for range scale(3, 1) {
			p := d.light()
			for _, flags := range personality {
				p.call("personality", unix.SYS_PERSONALITY, flags)
			}
			d.do(p.image(d.self, []string{"chain", strconv.Itoa(n)}, role("chain", n, n-1)))
		}
	}
}

func execFromThread(d *director) {
	for range scale(5, 3) {
		d.holdThread(d.script(), d.script(), d.waiter(4), "from a thread", "x")
	}
}
