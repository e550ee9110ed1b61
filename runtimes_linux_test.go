//go:build linux && (amd64 || arm64)

package quark_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
	"github.com/quark-linux/quark/internal/children"
	"github.com/quark-linux/quark/internal/retry"
	"github.com/quark-linux/quark/internal/tinyelf"
)

// No test runs on the main thread: TestRuntimes gives its thread a new mount namespace, but
// /proc/self must show the process's own namespace, that of the main thread.
func init() { runtime.LockOSThread() }

// box is a container to create with a runtime.
type box struct {
	name, runtime string // runtime is the program
	host          string // what it sees of cgroups, see ownMounts
	cgroup        string // where the container shall be, or is
	userNS        bool   // with a user namespace
	legacy        bool   // it is not in cgroup v2
	want          quark.Container
	write         func(t *testing.T, b *box) // makes its files, and sets what follows

	dir, id, root string // a directory, a name that nothing else has, the root directory

	run, start    []string // runs /init in the foreground; starts it if run only makes it
	enter, remove []string // runs a program in it; ends and removes it
	attr          *syscall.SysProcAttr

	// state returns the id of the container and the pid of /init, as the runtime shows them.
	// first is the runtime's own pid.
	state func(t *testing.T, first int) (id string, pid int)
}

const (
	boxID    = "4f797c539e6c745de61a93ca3ff892358ecbcaccd8414d5db545c38428142970"
	boxOuter = "9ec39b91f3d70e1beff50a308f77067065ea6be0d91a3378375056cd4422cf3d"
	boxPod   = "a5c1f8d5-1919-434d-add7-4afaafdaef89"
)

// Each backend reports the containers of real runtimes as the runtimes and the kernel show them:
// the container from its first exec on, namespaces, ids and paths, processes that enter later, and
// exits.
func TestRuntimes(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to make containers")
	}
	const pod = "/kubepods/burstable/pod" + boxPod + "/" + boxID
	boxes := []*box{{
		name: "runc", runtime: "runc", write: writeOCI,
		cgroup: "/system.slice/docker-" + boxID + ".scope",
		want:   quark.Container{ID: boxID, Runtime: "docker", Inside: "/"},
	}, { // a pod in a container of docker, as in kind
		name: "runc-create-userns", runtime: "runc", write: writeOCI, userNS: true,
		cgroup: "/docker/" + boxOuter + "/kubelet" + pod,
		want:   quark.Container{ID: boxOuter, Runtime: "docker", Inside: "/kubelet" + pod},
	}, {
		name: "runc-v1", runtime: "runc", write: writeOCI, host: "v1", legacy: true, cgroup: pod,
		want: quark.Container{ID: boxID, Pod: boxPod, Inside: "/"},
	}, {
		name: "crun", runtime: "crun", write: writeOCI, host: "v2",
		cgroup: "/kubepods.slice/kubepods-pod" + strings.ReplaceAll(boxPod, "-", "_") + ".slice/crio-" + boxID + ".scope",
		want:   quark.Container{ID: boxID, Runtime: "cri-o", Pod: boxPod, Inside: "/"},
	},
		{name: "podman", runtime: "podman", write: writePodman},
		{name: "lxc", runtime: "lxc-start", write: writeLXC},
		{name: "systemd-nspawn", runtime: "systemd-nspawn", host: "v2", write: writeNspawn},
	}
	if !slices.ContainsFunc(boxes, func(b *box) bool { return have(b.runtime) == nil }) {
		t.Skip("none of runc, crun, podman, lxc-start and systemd-nspawn is installed")
	}
	watches := watchAll(t)
	for _, b := range boxes {
		t.Run(b.name, func(t *testing.T) {
			if err := have(b.runtime); err != nil {
				t.Skip(err)
			}
			b.test(t, watches)
		})
	}
	for _, w := range watches {
		w.end(t)
	}
}

func have(program string) error {
	_, err := exec.LookPath(program)
	return err
}

// watch is a queue and the events that it delivered.
type watch struct {
	name   string
	queue  *quark.Queue
	cancel context.CancelFunc
	done   chan error

	mu     sync.Mutex
	events []*quark.Event
}

// watchAll opens a queue on each backend that works here, and reads it.
func watchAll(t *testing.T) (all []*watch) {
	for _, name := range backends.All.Names() {
		set, err := backends.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		opts := quark.Options{Backends: set, Strict: true, HoldTime: 50 * time.Millisecond}
		if err := tryBackend(opts); err != nil {
			t.Logf("%s does not run: %v", name, err)
			continue
		}
		ctx, cancel := context.WithCancel(context.Background())
		w := &watch{name: name, queue: open(t, opts), cancel: cancel, done: make(chan error, 1)}
		go func() {
			for ev, err := range w.queue.Events(ctx) {
				if err != nil {
					w.done <- err
					return
				}
				w.mu.Lock()
				w.events = append(w.events, ev.Clone())
				w.mu.Unlock()
			}
			w.done <- nil
		}()
		t.Cleanup(cancel)
		all = append(all, w)
	}
	if len(all) == 0 {
		t.Skip("no backend runs here")
	}
	return all
}

// end stops reading: all processes of the container have ended.
func (w *watch) end(t *testing.T) {
	w.cancel()
	if err := <-w.done; err != nil {
		t.Errorf("%s: %v", w.name, err)
	}
	for p := range w.queue.Processes() {
		if c, _ := p.Container(); !p.Exited && strings.Contains(p.Cgroup, unique()) {
			t.Errorf("%s: pid %d (%s): got container %+v, want none", w.name, p.PID, p.Image.Exe, c)
		}
	}
}

// last returns the last event of a process with a kind, and waits for it.
func (w *watch) last(t *testing.T, pid int, kind quark.Events) *quark.Event {
	t.Helper()
	for range retry.For(time.Minute) {
		w.mu.Lock()
		for _, ev := range slices.Backward(w.events) {
			if int(ev.Process.PID) == pid && ev.Events.Has(kind) && !ev.Thread {
				w.mu.Unlock()
				return ev
			}
		}
		w.mu.Unlock()
	}
	t.Fatalf("%s: no %v of pid %d", w.name, kind, pid)
	return nil
}

// unique returns a name for objects of this test.
func unique() string { return fmt.Sprintf("quark-test-%d", os.Getpid()) }

func (b *box) test(t *testing.T, watches []*watch) {
	b.dir, b.id = t.TempDir(), fmt.Sprint(unique(), "-", b.name)
	b.root = filepath.Join(b.dir, "root")
	b.attr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	ownMounts(t, b.host)
	b.makeRoot(t)
	before := cgroupDirs()
	t.Cleanup(func() { b.removeLeftovers(t, before) })
	if b.cgroup != "" {
		b.cgroup = "/" + unique() + b.cgroup
	}
	b.write(t, b)

	// If the runtime does not work here, the test is skipped.
	begin := truth.Clock()
	first := b.spawn(t, b.run, b.attr)
	if b.start != nil {
		if err := first.cmd.Wait(); err != nil {
			t.Skipf("%s: %v", strings.Join(b.run, " "), first.failure())
		}
		if out, err := exec.Command(b.start[0], b.start[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", strings.Join(b.start, " "), err, out)
		}
	}
	if !first.ready() {
		t.Skipf("%s: %v", strings.Join(b.run, " "), first.failure())
	}
	id, pid := b.state(t, first.cmd.Process.Pid)
	if b.want.ID == "" {
		b.want.ID = id
	}
	proc, err := truth.OpenProc()
	if err != nil {
		t.Fatal(err)
	}
	defer proc.Close()
	init := b.readState(t, proc, pid)
	if inner := strings.Fields(init.Value[engine.FieldPIDNS]); inner[1] != "1" || init.Value[engine.FieldExe] != "/init" {
		t.Fatalf("pid %d is not the first of the container: %v, %s", pid, inner, init.Value[engine.FieldExe])
	}

	// One process runs long, and the other exits at once.
	var later int
	var entered truth.State
	if b.enter != nil {
		s := b.spawn(t, append(slices.Clip(b.enter), "/later", "one two"), nil)
		if !s.ready() {
			t.Fatalf("%s: %v", b.enter, s.failure())
		}
		if later = findIn(t, proc, init, "/later"); later == 0 {
			t.Fatal("there is no /later in the container")
		}
		entered = b.readState(t, proc, later)
		for _, w := range watches {
			w.last(t, later, quark.EventExec) // all of it has been read
		}
		s.gate.Close()
		s.cmd.Wait()
		s = b.spawn(t, append(slices.Clip(b.enter), "/brief"), nil)
		s.cmd.Wait()
		if s.cmd.ProcessState.ExitCode() != 3 {
			t.Fatalf("%s: /brief: %v", b.enter, s.failure())
		}
	}

	// This process is outside of the container, and is moved there long after its exec.
	moved := b.spawn(t, []string{filepath.Join(b.root, "later")}, b.attr)
	if !moved.ready() {
		t.Fatal("a process outside: ", moved.failure())
	}
	if !b.legacy {
		procs := filepath.Join(unified(), init.Value[engine.FieldCgroup], "cgroup.procs")
		if err := os.WriteFile(procs, fmt.Append(nil, moved.cmd.Process.Pid), 0); err != nil {
			t.Fatal(err)
		}
	}
	moved.gate.Close()
	moved.cmd.Wait()

	for _, w := range watches {
		ev := w.last(t, pid, quark.EventExec)
		b.checkExec(t, w, ev, init)
		if p := ev.Process; !b.legacy && p.Known.Has(quark.FieldEntryLeader) && (p.EntryType != quark.EntryContainer || int(p.EntryLeader.PID) != pid) {
			t.Errorf("%s: first process: got entry type %v, leader %d", w.name, p.EntryType, p.EntryLeader.PID)
		}
		if later != 0 {
			b.checkExec(t, w, w.last(t, later, quark.EventExec), entered)
			b.checkEnd(t, w, later, 5, entered)
		}
		if !b.legacy {
			b.checkMoved(t, w, moved.cmd.Process.Pid, init.Value[engine.FieldCgroup])
		}
	}

	// The container's process and the runtime exit by themselves.
	first.gate.Close()
	if b.start == nil {
		first.cmd.Wait()
	} else {
		for range retry.For(5 * time.Second) {
			if unix.Kill(pid, 0) != nil {
				break
			}
		}
	}
	if b.remove != nil {
		if out, err := exec.Command(b.remove[0], b.remove[1:]...).CombinedOutput(); err != nil && b.start != nil {
			t.Errorf("%s: %v: %s", b.remove, err, out)
		}
	}
	for _, w := range watches {
		b.checkEnd(t, w, pid, 7, init)
		for _, kind := range []quark.Events{quark.EventExec, quark.EventExit} {
			p := w.last(t, first.cmd.Process.Pid, kind).Process
			if c, _ := p.Container(); c.ID != "" {
				t.Errorf("%s: the runtime itself: got container %+v at its %v, want none", w.name, c, kind)
			}
		}
		if b.enter != nil {
			b.checkBrief(t, w, entered, begin)
		}
	}
}

// readState returns the kernel's values of a paused process.
func (b *box) readState(t *testing.T, proc truth.Proc, pid int) truth.State {
	t.Helper()
	_, s, err := proc.Read(strconv.Itoa(pid))
	if err != nil {
		t.Fatal(err)
	}
	if !b.legacy && !strings.HasPrefix(s.Value[engine.FieldCgroup], b.cgroup) {
		t.Fatalf("pid %d: got cgroup %s, want %s", pid, s.Value[engine.FieldCgroup], b.cgroup)
	}
	return s
}

// checkExec compares an exec with the ground truth. All fields are known, because the process
// paused.
func (b *box) checkExec(t *testing.T, w *watch, ev *quark.Event, want truth.State) {
	t.Helper()
	p := ev.Process
	for f := range engine.FieldEntryLeader {
		got, cached := truth.ValueOf(p, f), p.Cached.Has(f)
		switch none := w.queue.Capabilities().Fields[f].Origin == quark.OriginNone; {
		case !want.Known.Has(f), none, f == engine.FieldPPID: // runtimes end after it
		case !p.Known.Has(f) && f == engine.FieldLogin && w.queue.Capabilities().Fields[f].Origin == engine.OriginProc:
			// The creator's login was read after the fork.
		case !p.Known.Has(f):
			t.Errorf("%s: got unknown %v of pid %d at %v", w.name, f, p.PID, ev.Events)
		case got != want.Value[f] && !cached:
			t.Errorf("%s: %v of pid %d: got %q, want %q", w.name, f, p.PID, got, want.Value[f])
		}
	}
	b.checkContainer(t, w, ev, want.Value[engine.FieldCgroup])
}

// checkContainer checks the container of a process in a cgroup, which may be below the box's.
func (b *box) checkContainer(t *testing.T, w *watch, ev *quark.Event, cgroup string) {
	t.Helper()
	want := b.want
	if b.legacy {
		want = quark.Container{}
	} else if below := strings.TrimPrefix(cgroup, b.cgroup); below != "" {
		want.Inside = strings.TrimSuffix(want.Inside, "/") + below
	}
	if c, known := ev.Process.Container(); known && c != want || !known && w.name == "ebpf" {
		t.Errorf("%s: pid %d at %v: got container %+v (known %t), want %+v", w.name, ev.Process.PID, ev.Events, c, known, want)
	}
}

// endedWith reports whether p has ended with a code, or may have: a source that reboot(2) can
// mislead does not know the status of the first process of a pid namespace.
func (w *watch) endedWith(p *quark.Process, code int) bool {
	if p.Known.Has(quark.FieldExit) {
		return int(p.Exit.WaitStatus) == code<<8
	}
	return (p.NSPID == 1 || !p.Known.Has(quark.FieldPIDNS)) && w.queue.Capabilities().Fields[quark.FieldExit].Unproven&engine.UnprovenReboot != 0
}

// checkEnd checks the end of a process.
func (b *box) checkEnd(t *testing.T, w *watch, pid, code int, was truth.State) {
	t.Helper()
	ev := w.last(t, pid, quark.EventExit)
	p := ev.Process
	if !w.endedWith(p, code) {
		t.Errorf("%s: pid %d: got wait status %#x (known: %v), want exit code %d", w.name, pid, p.Exit.WaitStatus, p.Known, code)
	}
	if ppid := fmt.Sprint(p.PPID); p.Known.Has(quark.FieldPPID) && !p.Cached.Has(quark.FieldPPID) && ppid != was.Value[engine.FieldPPID] {
		t.Errorf("%s: parent of pid %d at its exit: got %s, want %s", w.name, pid, ppid, was.Value[engine.FieldPPID])
	}
	b.checkContainer(t, w, ev, was.Value[engine.FieldCgroup])
}

// checkMoved checks a process that was moved into the container between its exec and its exit,
// which no event reports: it is reported outside, or its cgroup as cached.
func (b *box) checkMoved(t *testing.T, w *watch, pid int, to string) {
	t.Helper()
	if p := w.last(t, pid, quark.EventExec).Process; p.Cgroup == to && p.Known.Has(quark.FieldCgroup) && !p.Cached.Has(quark.FieldCgroup) {
		t.Errorf("%s: pid %d was not yet in %s at its exec", w.name, pid, to)
	}
	ev := w.last(t, pid, quark.EventExit)
	if ev.Process.Cached.Has(quark.FieldCgroup) && ev.Process.Cgroup != to {
		return
	}
	b.checkContainer(t, w, ev, to)
}

// checkBrief finds and checks the process that exited at once, whose pid is unknown.
func (b *box) checkBrief(t *testing.T, w *watch, like truth.State, begin uint64) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ev := range slices.Backward(w.events) {
		if p := ev.Process; ev.Time > begin && ev.Events.Has(quark.EventExit) && p.Image.Exe == "/brief" {
			if b.checkContainer(t, w, ev, like.Value[engine.FieldCgroup]); !w.endedWith(p, 3) {
				t.Errorf("%s: /brief: got wait status %#x", w.name, p.Exit.WaitStatus)
			}
			return
		}
	}
	if w.name != "cnproc" {
		t.Errorf("%s: /brief was not seen", w.name)
	}
}

// findIn returns the process of a program in the pid namespace of another.
func findIn(t *testing.T, proc truth.Proc, of truth.State, program string) int {
	ns, _, _ := strings.Cut(of.Value[engine.FieldPIDNS], " ")
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		if pid, err := strconv.Atoi(d.Name()); err == nil {
			_, s, err := proc.Read(d.Name())
			if own, _, _ := strings.Cut(s.Value[engine.FieldPIDNS], " "); err == nil && own == ns && s.Value[engine.FieldExe] == program {
				return pid
			}
		}
	}
	return 0
}

// spawned is a command with a program that waits at a gate.
type spawned struct {
	cmd  *exec.Cmd
	gate *os.File // it goes on when this is closed, also by our end
	out  *os.File
	log  string
}

func (b *box) spawn(t *testing.T, args []string, attr *syscall.SysProcAttr) *spawned {
	t.Helper()
	in, gate, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.CreateTemp(b.dir, "log")
	if err != nil {
		t.Fatal(err)
	}
	s := &spawned{cmd: exec.Command(args[0], args[1:]...), gate: gate, out: out, log: log.Name()}
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr, s.cmd.SysProcAttr = in, to, log, attr
	err = s.cmd.Start()
	in.Close()
	to.Close()
	log.Close()
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		gate.Close()
		out.Close()
		if s.cmd.ProcessState == nil {
			s.cmd.Process.Kill()
			s.cmd.Wait()
		}
	})
	return s
}

// ready waits until the program runs.
func (s *spawned) ready() bool {
	s.out.SetReadDeadline(time.Now().Add(2 * time.Minute))
	n, _ := s.out.Read(make([]byte, 1))
	return n == 1
}

// failure ends the command, and returns its exit and output.
func (s *spawned) failure() string {
	if s.cmd.ProcessState == nil {
		s.cmd.Process.Kill()
		s.cmd.Wait()
	}
	b, _ := os.ReadFile(s.log)
	return fmt.Sprintf("%v: %s", s.cmd.ProcessState, bytes.TrimSpace(b))
}

// ownMounts gives this thread a mount namespace with its own /run. The thread and all mounts end
// with the test. host selects the versions of cgroups that a runtime sees on a machine with both:
// "v1" or "v2" alone.
func ownMounts(t *testing.T, host string) {
	var hybrid bool
	if _, err := os.Stat("/sys/fs/cgroup/unified/cgroup.procs"); err == nil {
		hybrid = true
	} else if _, err := os.Stat("/sys/fs/cgroup/cgroup.procs"); err != nil {
		t.Skip("cgroup v2 is not mounted")
	} else if host == "v1" {
		t.Skip("the machine has no cgroup v1")
	}
	runtime.LockOSThread()
	err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS)
	mount := func(from, at, fs string, flags uintptr) {
		if err == nil {
			err = unix.Mount(from, at, fs, flags, "")
		}
	}
	mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE)
	mount("run", "/run", "tmpfs", 0)
	mount("shm", "/dev/shm", "tmpfs", 0)
	switch {
	case host == "v2" && hybrid:
		mount("cgroup2", "/sys/fs/cgroup", "cgroup2", 0)
	case host == "v1" && err == nil:
		err = unix.Unmount("/sys/fs/cgroup/unified", 0)
	}
	if err != nil {
		t.Skipf("can't make a mount namespace: %v", err)
	}
}

// unified returns the mount point of cgroup v2.
func unified() string {
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.procs"); err == nil {
		return "/sys/fs/cgroup"
	}
	return "/sys/fs/cgroup/unified"
}

// cgroupDirs returns all cgroups, children before their parents.
func cgroupDirs() (dirs []string) {
	filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return nil
	})
	slices.Reverse(dirs)
	return dirs
}

// removeLeftovers removes the remaining cgroups. It fails the test for cgroups other than the empty
// parents of a container and LXC's own, which no runtime removes.
func (b *box) removeLeftovers(t *testing.T, before []string) {
	if b.remove != nil {
		exec.Command(b.remove[0], b.remove[1:]...).Run()
	}
	mine := func(s string) bool { return strings.Contains(s, unique()) || strings.Contains(s, b.dir) }
	const patient = 400 // tries
	for tries := range retry.For(10 * time.Second) {
		var left []string
		procs, _ := filepath.Glob("/proc/[0-9]*")
		for _, p := range procs {
			cgroup, _ := os.ReadFile(p + "/cgroup")
			args, err := os.ReadFile(p + "/cmdline")
			if pid, _ := strconv.Atoi(filepath.Base(p)); err == nil && pid != os.Getpid() && (mine(string(cgroup)) || mine(string(args))) {
				left = append(left, fmt.Sprintf("pid %d: %q", pid, args))
				if tries == patient {
					unix.Kill(pid, unix.SIGKILL)
				}
			}
		}
		for _, dir := range cgroupDirs() {
			if mine(dir) || filepath.Base(dir) == "lxc.pivot" && !slices.Contains(before, dir) {
				if err := os.Remove(dir); err != nil {
					left = append(left, err.Error())
				}
			}
		}
		if len(left) == 0 {
			return
		}
		if tries == patient {
			t.Errorf("left behind: %q", left)
		}
	}
}

// makeRoot makes a root directory with three programs: /init exits with 7, /later with 5, and
// /brief at once with 3.
func (b *box) makeRoot(t *testing.T) {
	for _, d := range []string{"", "proc", "dev", "sys", "run", "tmp", "etc", "usr", "var", "root", "work"} {
		if err := os.MkdirAll(filepath.Join(b.root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for d := b.dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{
		tinyelf.WriteWaiter(b.root+"/init", 7), tinyelf.WriteWaiter(b.root+"/later", 5), tinyelf.Write(b.root+"/brief", 3),
		os.WriteFile(b.root+"/etc/os-release", nil, 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// output returns the output of a command of the runtime.
func output(t *testing.T, args ...string) []byte {
	t.Helper()
	out, err := exec.Command(args[0], args[1:]...).Output()
	if err != nil {
		t.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
	return out
}

// writeOCI writes a bundle for an OCI runtime. Like containerd, it creates a container with a user
// namespace first, and then starts it.
func writeOCI(t *testing.T, b *box) {
	type object = map[string]any
	var namespaces []object
	for _, ns := range []string{"pid", "mount", "uts", "ipc", "network", "cgroup"} {
		namespaces = append(namespaces, object{"type": ns})
	}
	linux := object{"cgroupsPath": b.cgroup}
	if b.userNS {
		namespaces = append(namespaces, object{"type": "user"})
		ids := []object{{"containerID": 0, "hostID": 100000, "size": 1000}}
		linux["uidMappings"], linux["gidMappings"] = ids, ids
	}
	linux["namespaces"] = namespaces
	config, err := json.Marshal(object{
		"ociVersion": "1.0.2", "hostname": "box", "linux": linux, "root": object{"path": b.root},
		"process": object{
			"args": []string{"/init", "a b"}, "cwd": "/work", "user": object{"uid": 7, "gid": 8}, "noNewPrivileges": true,
		},
		"mounts": []object{
			{"destination": "/proc", "type": "proc", "source": "proc"}, {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
		},
	})
	if err == nil {
		err = os.WriteFile(b.dir+"/config.json", config, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	call := func(args ...string) []string {
		return append([]string{b.runtime, "--root", b.dir + "/state"}, args...)
	}
	b.run = call("run", "--bundle", b.dir, b.id)
	b.enter, b.remove = call("exec", b.id), call("delete", "--force", b.id)
	if b.userNS {
		b.run, b.start = call("create", "--bundle", b.dir, b.id), call("start", b.id)
	}
	b.state = func(t *testing.T, _ int) (string, int) {
		var s struct {
			ID  string
			PID int
		}
		if err := json.Unmarshal(output(t, call("state", b.id)...), &s); err != nil || s.ID != b.id {
			t.Fatalf("state of %s: %+v, %v", b.id, s, err)
		}
		return b.want.ID, s.PID
	}
}

func writePodman(t *testing.T, b *box) {
	oci := "crun"
	if have("runc") == nil {
		oci = "runc"
	}
	config := b.dir + "/containers.conf"
	if err := os.WriteFile(config, fmt.Appendf(nil, "[engine]\nevents_logger=\"none\"\n[network]\nnetwork_config_dir=%q\n", b.dir+"/cni"), 0o644); err != nil {
		t.Fatal(err)
	}
	if os.Getenv("CONTAINERS_CONF") == "" {
		t.Setenv("CONTAINERS_CONF", config)
	}
	call := func(args ...string) []string {
		return append([]string{"podman", "--runtime", oci, "--cgroup-manager", "cgroupfs", "--storage-driver", "vfs",
			"--root", b.dir + "/storage", "--runroot", b.dir + "/run", "--tmpdir", b.dir + "/tmp"}, args...)
	}
	b.run = call("run", "-i", "--rm", "--name", b.id, "--network", "none", "--cgroup-parent", "/"+unique()+"/libpod_parent",
		"--security-opt", "seccomp=unconfined", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024",
		"--user", "7:8", "--workdir", "/work", "--rootfs", b.root, "/init", "a b")
	b.enter, b.remove = call("exec", "-i", b.id), call("rm", "--force", "--ignore", b.id)
	b.want = quark.Container{Runtime: "podman", Inside: "/"}
	b.state = func(t *testing.T, _ int) (id string, pid int) {
		out := output(t, call("inspect", "--format", "{{.Id}} {{.State.Pid}} {{.State.CgroupPath}}", b.id)...)
		if _, err := fmt.Sscan(string(out), &id, &pid, &b.cgroup); err != nil {
			t.Fatalf("podman inspect: %q: %v", out, err)
		}
		return id, pid
	}
}

func writeLXC(t *testing.T, b *box) {
	config := fmt.Sprintf(`
lxc.uts.name = box
lxc.rootfs.path = dir:%s
lxc.rootfs.mount = %s
lxc.net.0.type = empty
lxc.console.path = none
lxc.mount.auto = proc
lxc.apparmor.profile = unconfined
lxc.init.cmd = /init "a b"
lxc.init.uid = 7
lxc.init.gid = 8
lxc.init.cwd = /work
`, b.root, b.dir)
	err := os.Mkdir(b.dir+"/"+b.id, 0o755)
	if err == nil {
		err = os.WriteFile(b.dir+"/"+b.id+"/config", []byte(config), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	call := func(name string, args ...string) []string {
		return append([]string{name, "-P", b.dir, "-n", b.id}, args...)
	}
	b.run = call("lxc-start", "-F")
	b.enter, b.remove = call("lxc-attach", "--"), call("lxc-stop", "--kill")
	b.want = quark.Container{ID: b.id, Runtime: "lxc", Inside: "/"}
	b.cgroup = "/lxc.payload." + b.id
	b.state = func(t *testing.T, _ int) (string, int) {
		out := output(t, call("lxc-info", "-p", "-H")...)
		pid, err := strconv.Atoi(string(bytes.TrimSpace(out)))
		if err != nil {
			t.Fatalf("lxc-info: got output %q", out)
		}
		return b.id, pid
	}
}

// writeNspawn makes the cgroup that systemd makes for the unit systemd-nspawn@NAME.service.
func writeNspawn(t *testing.T, b *box) {
	unit := fmt.Sprintf("%s/%s/machine.slice/systemd-nspawn@%s.service", unified(), unique(), b.id)
	if err := os.MkdirAll(unit, 0o755); err != nil {
		t.Skip(err)
	}
	dir, err := os.Open(unit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	b.attr.UseCgroupFD, b.attr.CgroupFD = true, int(dir.Fd())
	t.Setenv("SYSTEMD_NSPAWN_UNIFIED_HIERARCHY", "1")
	b.run = []string{"systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--console=pipe", "--private-network", "--link-journal=no",
		"--resolv-conf=off", "--timezone=off", "--chdir=/work", "--machine=" + b.id, "--directory=" + b.root, "/init", "a b"}
	b.cgroup = strings.TrimPrefix(unit, unified()) + "/payload"
	b.want = quark.Container{ID: b.id, Runtime: "systemd-nspawn", Inside: "/payload"}
	b.state = func(t *testing.T, first int) (string, int) {
		pids, err := children.Of(first)
		if len(pids) != 1 {
			t.Fatalf("children of systemd-nspawn: got %v, error %v", pids, err)
		}
		return b.id, pids[0]
	}
}
