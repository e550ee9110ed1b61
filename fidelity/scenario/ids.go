package scenario

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
	bare "github.com/quark-linux/quark/internal/barefork"
)

// setresgid appends the event of that name.
func (p *process) setresgid(r, e, s int) *process {
	rec := truth.Record{Op: truth.IDs, ID: engine.ChangedGID}
	rec.State.Set(engine.FieldGIDs, fmt.Sprint(r, " ", e))
	rec.State.Set(engine.FieldSGID, itoa(s))
	return p.event(rec, "setresgid", unix.SYS_SETRESGID, r, e, s)
}

// setresuid appends the event of that name.
func (p *process) setresuid(r, e, s int) *process {
	rec := truth.Record{Op: truth.IDs, ID: engine.ChangedUID}
	rec.State.Set(engine.FieldUIDs, fmt.Sprint(r, " ", e))
	rec.State.Set(engine.FieldSUID, itoa(s))
	return p.event(rec, "setresuid", unix.SYS_SETRESUID, r, e, s)
}

// stand lets a process that executes nothing stand still until it has been
// observed, and then end.
func (d *director) stand(p *process, code int) {
	ready, goOn := d.gate(), d.gate()
	p.stamp()
	p.Tell(ready.w).WaitFor(goOn.r)
	p.end(code)
	d.start(p, bare.Options{})
	ready.pass(p)
	d.observe(p.pid)
	goOn.open()
	d.finish(p)
	ready.close()
	goOn.close()
}

func setresIDs(d *director) {
	d.stand(d.script().setresgid(2001, 2002, 2003).setresuid(2004, 2005, 2006), 1)
	// The effective ids stay, so that the program may be executed.
	h := d.hold(d.script().setresgid(1002, 0, 1003).setresuid(1001, 0, 1004), d.self, []string{"ids"}, "wait", 0, bare.Options{}, true)
	h.release()
}

// copySelf makes another file of this program.
func (d *director) copySelf(path string) {
	in, err := os.Open(d.self)
	d.must(err)
	defer in.Close()
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	d.must(err)
	_, err = io.Copy(out, in)
	d.must(err)
	d.must(out.Close())
}

func setuidProgram(d *director) {
	var fs unix.Statfs_t
	d.must(unix.Statfs(d.dir, &fs))
	if fs.Flags&unix.ST_NOSUID != 0 {
		d.skip("%s is mounted nosuid", d.dir)
	}
	if status, err := os.ReadFile("/proc/self/status"); err != nil || strings.Contains(string(status), "NoNewPrivs:\t1") {
		d.skip("set-id programs have no effect here: no_new_privs is set (%v)", err)
	}
	path := filepath.Join(d.dir, "set-id")
	d.copySelf(path)
	for _, c := range []struct {
		uid, gid int
		mode     uint32
	}{{0, 0, 0o4755}, {1234, 1235, 0o4755}, {1234, 1235, 0o2755}, {1234, 1235, 0o6755}} {
		// A change of the owner takes the bits away.
		if err := os.Chown(path, c.uid, c.gid); err != nil {
			d.skip("chown: %v", err)
		}
		d.must(unix.Chmod(path, c.mode))
		p := d.script().call("setgroups", unix.SYS_SETGROUPS, 0, nil).setresgid(2001, 2001, 2001).setresuid(2002, 2002, 2002)
		p.mayFail = true
		d.hold(p, path, []string{fmt.Sprintf("%o", c.mode)}, "wait", 0, bare.Options{}, true).release()
	}
}

// capset lowers the inheritable and effective sets, which exec of root then fills
// up to the bounding set.
func capset(d *director) {
	// Version 3, this thread; effective, permitted, inheritable, twice 32 bits.
	header := []uint32{0x20080522, 0}
	data := []uint32{1 << unix.CAP_KILL, 1<<unix.CAP_KILL | 1<<unix.CAP_CHOWN, 1 << unix.CAP_CHOWN, 0, 0, 0}
	p := d.script().unsettled(engine.FieldCaps.Set())
	p.call("prctl", unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, unix.CAP_SYS_TIME)
	p.call("capset", unix.SYS_CAPSET, header, data)
	p.mayFail = true
	d.hold(p, d.self, []string{"capset"}, "wait", 0, bare.Options{}, true).release()
}

func session(d *director) {
	d.hold(d.script().setsid(), d.self, []string{"session"}, "wait", 0, bare.Options{}, true).release()
	d.stand(d.script().setsid(), 3)
	d.hold(d.script().call("setpgid", unix.SYS_SETPGID, 0, 0), d.self, []string{"group"}, "wait", 0, bare.Options{}, true).release()
}

func comm(d *director) {
	named := func(name string) truth.Record {
		r := truth.Record{Op: truth.Comm}
		r.State.Set(engine.FieldComm, commOf(name))
		return r
	}
	set := func(p *process, name string) {
		p.event(named(name), "prctl", unix.SYS_PRCTL, unix.PR_SET_NAME, name)
	}
	p := d.script()
	set(p, "renamed")
	d.stand(p, 0)
	p = d.script()
	set(p, "a name of more than fifteen bytes")
	set(p, "and another")
	d.hold(p, d.self, []string{"comm"}, "wait", 0, bare.Options{}, true).release()
}

func threadComm(d *director) {
	for range 3 {
		g := d.gate()
		thread := new(bare.Script).Call("prctl", unix.SYS_PRCTL, unix.PR_SET_NAME, "of the thread").Tell(g.w).Stop()
		done := d.gate()
		p := d.script()
		p.Thread(thread).WaitFor(done.r)
		p.end(0)
		d.start(p, bare.Options{})
		g.pass(p)
		d.observe(p.pid)
		done.open()
		d.finish(p)
		g.close()
		done.close()
	}
}

func ptrace(d *director) {
	g, done := d.gate(), d.gate()
	p := d.script()
	p.stamp()
	p.Tell(g.w).WaitFor(done.r)
	p.end(2)
	d.start(p, bare.Options{})
	g.pass(p)
	call := func(name string, request uintptr) {
		before := truth.Clock()
		if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, request, uintptr(p.pid), 0, 0, 0, 0); errno != 0 {
			d.fail(fmt.Errorf("ptrace %s: %w", name, errno))
		}
		r := truth.Record{Op: truth.Ptrace, PID: p.pid, Earliest: before, Latest: truth.Clock()}
		if request != unix.PTRACE_DETACH {
			r.Tracer = d.pid
		}
		d.record(r)
	}
	call("attach", unix.PTRACE_ATTACH)
	var status unix.WaitStatus
	_, err := unix.Wait4(p.pid, &status, unix.WALL, nil)
	d.must(err)
	d.want(status.Stopped(), "wait status %#x", status)
	call("detach", unix.PTRACE_DETACH)
	done.open()
	d.finish(p)
	g.close()
	done.close()
}

// clonePtrace lets a traced process clone with CLONE_PTRACE: the child is traced by
// the same from its birth on.
func clonePtrace(d *director) {
	g := d.gate()
	p := d.script()
	child := d.script()
	child.end(3)
	p.WaitFor(g.r)
	p.child(unix.CLONE_PTRACE, child).awaitChild().end(4)
	d.start(p, bare.Options{})
	before := truth.Clock()
	if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(p.pid), 0, 0, 0, 0); errno != 0 {
		d.fail(fmt.Errorf("ptrace seize: %w", errno))
	}
	d.record(truth.Record{Op: truth.Ptrace, PID: p.pid, Earliest: before, Latest: truth.Clock(), Tracer: d.pid})
	g.open()
	// The child begins stopped; a tracer that waits for all gets its stop and its end.
	var mine, childs *ended
	var childPID int
	for mine == nil {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WALL, nil)
		d.must(err)
		switch {
		case status.Stopped():
			unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_CONT, uintptr(pid), 0, 0, 0, 0)
		case pid == p.pid:
			mine = &ended{status, truth.Clock()}
		default:
			childPID, childs = pid, &ended{status, truth.Clock()}
		}
	}
	g.close()
	d.must(p.run.Check())
	d.tell(p, mine.at)
	d.record(p.exit(mine.status, mine.at))
	child.run, child.thread, child.pid = p.run, 1, p.run.Thread(1)
	d.want(childs == nil || childPID == child.pid, "the tracer got the end of process %d", childPID)
	if childs == nil || !childs.status.Exited() {
		e := d.reapOnly(child)
		childs = &e
	}
	d.record(child.exit(childs.status, childs.at))
	// Whether the birth as traced is an event of its own is the source's choice.
	d.record(truth.Record{Op: truth.Ptrace, PID: child.pid, Latest: childs.at, Tracer: d.pid, Optional: true})
	p.run.Free()
}
