package scenario

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
)

// containers runs processes in cgroups with the names that container runtimes use. A process enters
// a cgroup itself before its exec, is moved there before or after its exec, or is created there.
func containers(d *director) {
	id, other := fmt.Sprintf("%064x", d.pid), strings.Repeat("f", 64)
	const pod = "a5c1f8d5-1919-434d-add7-4afaafdaef89"
	top := fmt.Sprintf("/quark-%d.slice", d.pid)
	for _, c := range []struct{ path, is string }{
		{"/docker/" + id, "docker " + id + " pod  unit  inside /"},
		{"/kubepods.slice/kubepods-pod" + strings.ReplaceAll(pod, "-", "_") + ".slice/cri-containerd-" + id + ".scope/init",
			"containerd " + id + " pod " + pod + " unit  inside /init"},
		{"/kubepods/burstable/pod" + pod + "/" + id, " " + id + " pod " + pod + " unit  inside /"},
		{"/user@7.service/libpod-" + id + ".scope/container", "podman " + id + " pod  unit user@7.service inside /container"},
		{"/lxc.payload.web/docker/" + other, "lxc web pod  unit  inside /docker/" + other},
		{"/lxc.monitor.web", "  pod  unit  inside "},
	} {
		d.inContainer(top+c.path, c.is)
	}
}

// inContainer creates a cgroup, moves processes into it, and removes it.
func (d *director) inContainer(path, is string) {
	mount := d.cgroupMount()
	defer func() {
		d.endAll()
		for dir := path; dir != "/"; dir = filepath.Dir(dir) {
			os.Remove(mount + dir)
		}
	}()
	if err := os.MkdirAll(mount+path, 0o755); err != nil {
		d.skip("make a cgroup: %v", err)
	}
	name := mount + path + "/cgroup.procs"
	procs := d.keep(unix.Open(name, unix.O_WRONLY|unix.O_CLOEXEC, 0))
	var in truth.State
	in.Set(engine.FieldCgroup, path)
	in.Container = is
	enter := func(p *process) *process {
		return p.event(truth.Record{Op: truth.Cgroup, State: in}, "write", unix.SYS_WRITE, procs, "0", 1)
	}
	// move moves a process from outside and observes it.
	move := func(p *process) {
		before := truth.Clock()
		d.must(os.WriteFile(name, []byte(itoa(p.pid)), 0))
		d.record(truth.Record{Op: truth.Cgroup, PID: p.pid, Earliest: before, Latest: truth.Clock(), Tracer: d.pid, State: in})
	}

	leader := d.hold(enter(d.script().setsid()), d.waiter(0), "in a container")
	if !strings.HasPrefix(is, " ") { // the director is in no container
		var own truth.State
		own.Set(engine.FieldEntryLeader, "container "+itoa(leader.pid))
		d.record(truth.Record{Op: truth.Now, PID: leader.pid, Latest: truth.Clock(), State: own})
	}
	leader.release()

	p := d.script()
	d.holdTwice(p, "moved before", func() { move(p) })

	after := d.hold(d.light(), d.waiter(0), "moved after")
	move(after.process)
	d.observe(after.pid)
	after.release()

	d.holdChild(enter(d.script()), d.script(), "born inside").release()
}

// cgroupMoves lets other processes move a process of two threads, and one that forks meanwhile. Its
// last cgroup is removed when it has left.
func cgroupMoves(d *director) {
	var procs [2]int
	var in [2]truth.State
	for i := range in {
		dir, path := d.makeCgroup(i)
		defer os.Remove(dir)
		procs[i] = d.keep(unix.Open(filepath.Join(dir, "cgroup.procs"), unix.O_WRONLY|unix.O_CLOEXEC, 0))
		in[i].Set(engine.FieldCgroup, path)
	}
	defer d.endAll()

	ready, done := d.gate(), d.gate()
	p, t := d.script(), d.script()
	t.WaitFor(done.r)
	p.startThread(t.endThread(0)).Notify(ready.w).WaitFor(done.r)
	d.start(p.end(2))
	ready.pass(p)
	pid, before := itoa(p.pid), truth.Clock()
	mover := d.script().call("write", unix.SYS_WRITE, procs[0], pid, len(pid)).end(0)
	d.do(mover)
	d.record(truth.Record{Op: truth.Cgroup, PID: p.pid, Earliest: before, Latest: truth.Clock(), Tracer: mover.pid, State: in[0]})
	d.observe(p.pid)
	done.release(p, t)
	done.open()
	d.finish(p)

	p, done = d.script(), d.gate()
	for range scale(20, 5) {
		child := d.script()
		child.fresh = engine.FieldCgroup.Set() // of before or after a move
		p.child(0, child.end(0)).awaitChild()
	}
	p.Notify(ready.w).WaitFor(done.r)
	d.start(p.end(3))
	pid = itoa(p.pid)
	for i := range 50 {
		before := truth.Clock()
		_, err := unix.Write(procs[i%2], []byte(pid))
		d.must(err)
		d.record(truth.Record{Op: truth.Cgroup, PID: p.pid, Earliest: before, Latest: truth.Clock(), Tracer: d.pid, State: in[i%2]})
	}
	ready.pass(p)
	d.observe(p.pid)
	done.release(p)
	d.finish(p)
}
