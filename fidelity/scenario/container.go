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
		return p.call("write", unix.SYS_WRITE, procs, "0", 1).setState(in)
	}
	// move moves a process from outside and observes it.
	move := func(p *process) {
		d.must(os.WriteFile(name, []byte(itoa(p.pid)), 0))
		d.record(truth.Record{Op: truth.Now, PID: p.pid, Latest: truth.Clock(), State: in})
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
