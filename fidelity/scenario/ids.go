package scenario

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
)

func (p *process) setresgid(r, e, s int) *process {
	return p.event(idRecord(engine.ChangedGID, r, e, s), "setresgid", unix.SYS_SETRESGID, r, e, s)
}

func (p *process) setresuid(r, e, s int) *process {
	return p.event(idRecord(engine.ChangedUID, r, e, s), "setresuid", unix.SYS_SETRESUID, r, e, s)
}

// idRecord returns the record of a process with real, effective and saved ids.
func idRecord(id engine.IDChange, real, effective, saved int) truth.Record {
	r := truth.Record{Op: truth.IDs, ID: id}
	ids, of := engine.FieldUIDs, engine.FieldSUID
	if id == engine.ChangedGID {
		ids, of = engine.FieldGIDs, engine.FieldSGID
	}
	r.State.Set(ids, fmt.Sprint(real, " ", effective))
	r.State.Set(of, itoa(saved))
	return r
}

// pauseAndEnd observes a process that has not executed a program while it pauses, and lets it end.
func (d *director) pauseAndEnd(p *process, code int) {
	ready, goOn := d.gate(), d.gate()
	p.stamp()
	p.Notify(ready.w).WaitFor(goOn.r)
	d.observeAt(p.end(code), ready, goOn)
}

// observeAt starts a process that opens the gate ready and waits at the gate goOn, and observes it
// while it waits.
func (d *director) observeAt(p *process, ready, goOn *gate) {
	d.start(p)
	ready.pass(p)
	d.observe(p.pid)
	goOn.release(p)
	d.finish(p)
}

// singleIDs runs processes that each change ids by one system call.
func singleIDs(d *director) {
	const same, uid, gid = -1, engine.ChangedUID, engine.ChangedGID
	for _, c := range []struct {
		name   string
		number uintptr
		args   []any
		record truth.Record
	}{
		{"setuid", unix.SYS_SETUID, []any{3001}, idRecord(uid, 3001, 3001, 3001)},
		{"setgid", unix.SYS_SETGID, []any{3002}, idRecord(gid, 3002, 3002, 3002)},
		{"setreuid", unix.SYS_SETREUID, []any{3003, 3004}, idRecord(uid, 3003, 3004, 3004)},
		{"setregid", unix.SYS_SETREGID, []any{3005, 3006}, idRecord(gid, 3005, 3006, 3006)},
		{"setresuid", unix.SYS_SETRESUID, []any{3007, same, same}, idRecord(uid, 3007, 0, 0)},
		{"setresgid", unix.SYS_SETRESGID, []any{same, 3008, same}, idRecord(gid, 0, 3008, 0)},
		{"setresuid of the saved id", unix.SYS_SETRESUID, []any{same, same, 3009}, idRecord(uid, 0, 0, 3009)},
	} {
		d.pauseAndEnd(d.script().event(c.record, c.name, c.number, c.args...), 0)
	}
	d.pauseAndEnd(d.script().setsid(), 0)
}

// sameIDs sets ids to their current values, and sets file system ids, which quark does not report.
func sameIDs(d *director) {
	const same = -1
	for _, calls := range [][]struct {
		name   string
		number uintptr
		args   []any
		id     engine.IDChange // ids that the call sets without a change
	}{
		{{"setuid", unix.SYS_SETUID, []any{0}, engine.ChangedUID}},
		{{"setgid", unix.SYS_SETGID, []any{0}, engine.ChangedGID}},
		{
			{"setfsuid", unix.SYS_SETFSUID, []any{5}, engine.ChangedUID},
			{"setfsuid", unix.SYS_SETFSUID, []any{0}, engine.ChangedUID},
			{"setfsgid", unix.SYS_SETFSGID, []any{5}, engine.ChangedGID},
			{"setfsgid", unix.SYS_SETFSGID, []any{6}, engine.ChangedGID},
		},
		{
			{"setfsuid", unix.SYS_SETFSUID, []any{5}, engine.ChangedUID},
			{"setresuid", unix.SYS_SETRESUID, []any{same, same, same}, engine.ChangedUID},
			{"setresgid", unix.SYS_SETRESGID, []any{same, same, same}, engine.ChangedGID},
			{"setresuid", unix.SYS_SETRESUID, []any{0, 0, 0}, engine.ChangedUID},
		},
	} {
		p := d.script()
		for _, c := range calls {
			p.event(truth.Record{Op: truth.IDs, ID: c.id, Optional: true, Unchanged: true}, c.name, c.number, c.args...)
		}
		d.pauseAndEnd(p, 0)
	}
	d.fileIDs()
}

// fileIDs pauses a process of root that has another file system uid, and therefore fewer
// capabilities. They are not recorded, as they differ before and after the pause.
func (d *director) fileIDs() {
	set := func(p *process, uid int) *process {
		return p.event(truth.Record{Op: truth.IDs, ID: engine.ChangedUID, Optional: true, Unchanged: true}, "setfsuid", unix.SYS_SETFSUID, uid)
	}
	first, goOn := d.gate(), d.gate()
	second, toEnd := d.gate(), d.gate()
	p := set(d.script(), 5)
	p.Notify(first.w).WaitFor(goOn.r)
	set(p, 0).stamp()
	p.Notify(second.w).WaitFor(toEnd.r)
	d.start(p.end(0))
	first.pass(p)
	d.awaitReaders(p.pid)
	goOn.release(p)
	second.pass(p)
	d.observe(p.pid)
	toEnd.release(p)
	d.finish(p)
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
	d.writeWaiter(path, 0)
	for _, c := range []struct {
		uid, gid   int
		mode       uint32
		uids, gids string // real and effective
		by         engine.Privileges
	}{
		{0, 0, 0o4755, "2002 0", "2001 2001", engine.BySetUID},
		{1234, 1235, 0o4755, "2002 1234", "2001 2001", engine.BySetUID},
		{1234, 1235, 0o2755, "2002 2002", "2001 1235", engine.BySetGID},
		{1234, 1235, 0o6755, "2002 1234", "2001 1235", engine.BySetUID | engine.BySetGID},
	} {
		// chown clears the set-id bits, so it comes before chmod.
		if err := os.Chown(path, c.uid, c.gid); err != nil {
			d.skip("chown: %v", err)
		}
		d.must(unix.Chmod(path, c.mode))
		p := d.script().call("setgroups", unix.SYS_SETGROUPS, 0, nil).setresgid(2001, 2001, 2001).setresuid(2002, 2002, 2002)
		p.mayFail = true
		p.after.Set(engine.FieldPrivileges, c.by.String())
		h := d.hold(p, path, fmt.Sprintf("%o", c.mode))
		s := d.readState(h.pid)
		u, g := s.Value[engine.FieldUIDs], s.Value[engine.FieldGIDs]
		d.want(u == c.uids && g == c.gids, "mode %o: user ids %s, group ids %s", c.mode, u, g)
		h.release()
	}
	// A thread with other ids than its leader executes it.
	d.must(unix.Chmod(path, 0o4755))
	for _, c := range []struct {
		leader, thread *process
		by             engine.Privileges
	}{
		{d.script(), d.script().setresuid(2002, 1234, 1234), 0},
		{d.script().setresuid(2002, 1234, 0), d.script().setresuid(2002, 2002, 2002), engine.BySetUID},
	} {
		c.leader.after.Set(engine.FieldPrivileges, c.by.String())
		d.holdThread(c.leader, c.thread, path, "thread")
	}
}

// fileCaps executes a program with a file capability, as root, which already has the capability,
// and as a user.
func fileCaps(d *director) {
	path := filepath.Join(d.dir, "file-caps")
	d.writeWaiter(path, 0)
	if status, err := os.ReadFile("/proc/self/status"); err != nil || strings.Contains(string(status), "NoNewPrivs:\t1") {
		d.skip("capabilities of files have no effect here: no_new_privs is set (%v)", err)
	}
	// struct vfs_cap_data: version 2, effective bit; permitted, inheritable; high words.
	value := binary.LittleEndian.AppendUint32(nil, 0x02000001)
	for _, word := range []uint32{1 << unix.CAP_NET_BIND_SERVICE, 0, 0, 0} {
		value = binary.LittleEndian.AppendUint32(value, word)
	}
	if err := unix.Setxattr(path, "security.capability", value, 0); err != nil {
		d.skip("a file can't have a capability in %s: %v", d.dir, err)
	}
	root, user := d.script(), d.script().setresuid(2002, 2002, 2002)
	root.after.Set(engine.FieldPrivileges, "")
	user.after.Set(engine.FieldPrivileges, engine.ByFileCaps.String())
	d.hold(root, path, "root").release()
	d.hold(user, path, "user").release()
}

// capset lowers the effective and inheritable sets. A following exec by root raises the permitted
// and effective sets to the bounding set. A second process and its child have a seccomp filter, and
// a third has no_new_privs.
func capset(d *director) {
	// Version 3, this thread; effective, permitted, inheritable: low words, then high words.
	header := []uint32{0x20080522, 0}
	data := []uint32{1 << unix.CAP_KILL, 1<<unix.CAP_KILL | 1<<unix.CAP_CHOWN, 1 << unix.CAP_CHOWN, 0, 0, 0}
	p := d.script().unsettled(engine.FieldCaps.Set())
	p.call("prctl", unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, unix.CAP_SYS_TIME)
	p.call("capset", unix.SYS_CAPSET, header, data)
	p.mayFail = true
	d.hold(p, d.waiter(0), "capset").release()

	filtered := d.script()
	filtered.filterCall(^uint32(0), unix.SECCOMP_RET_ALLOW)
	d.holdChild(filtered, d.script(), "filtered").release()
	flagged := d.script().unsettled(engine.FieldNoNewPrivs.Set())
	flagged.call("prctl", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	d.hold(flagged, d.waiter(0), "flagged").release()
}

// changedBefore runs a process that changes many attributes, executes a program and continues.
func changedBefore(d *director) {
	dir := d.mkdir("elsewhere")
	p := d.script().unsettled(engine.FieldCaps.Set() | engine.FieldPGID.Set())
	p.setComm("before")
	p.leadGroup().call("chdir", unix.SYS_CHDIR, dir)
	p.setresgid(1002, 0, 1003).setresuid(1001, 0, 1001)
	p.call("prctl", unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, unix.CAP_SYS_TIME)
	d.hold(p, d.waiter(0), "changed", "before", "exec").release()
}

// setComm appends prctl(PR_SET_NAME) and its event.
func (p *process) setComm(name string) *process {
	r := truth.Record{Op: truth.Comm}
	r.State.Set(engine.FieldComm, commOf(name))
	return p.event(r, "prctl", unix.SYS_PRCTL, unix.PR_SET_NAME, name)
}

func threadComm(d *director) {
	for range scale(3, 1) {
		g, done := d.gate(), d.gate()
		thread := d.script()
		thread.call("prctl", unix.SYS_PRCTL, unix.PR_SET_NAME, "of the thread").stamp()
		thread.Notify(g.w).Stop()
		p := d.script()
		p.startThread(thread).WaitFor(done.r)
		d.observeAt(p.end(0), g, done)
	}
}

func ptraceCall(request, pid int, data uintptr) error {
	if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, uintptr(request), uintptr(pid), 0, data, 0, 0); errno != 0 {
		return fmt.Errorf("ptrace request %#x: %w", request, errno)
	}
	return nil
}

// trace attaches or detaches the director as the tracer of a process, and records it.
func (d *director) trace(pid, request int) error {
	r := truth.Record{Op: truth.Ptrace, PID: pid, Earliest: truth.Clock()}
	if err := ptraceCall(request, pid, 0); err != nil {
		return err
	}
	r.Latest = truth.Clock()
	if request != unix.PTRACE_DETACH {
		r.Tracer = d.pid
	}
	d.record(r)
	return nil
}

// traced starts a process that waits until done is opened.
func (d *director) traced(done *gate) *process {
	g, p := d.gate(), d.script()
	p.stamp()
	p.Notify(g.w).WaitFor(done.r)
	d.start(p.end(2))
	g.pass(p)
	return p
}

func ptrace(d *director) {
	for _, request := range []int{unix.PTRACE_ATTACH, unix.PTRACE_SEIZE} {
		done := d.gate()
		p := d.traced(done)
		d.must(d.trace(p.pid, request))
		if request == unix.PTRACE_SEIZE {
			d.must(ptraceCall(unix.PTRACE_INTERRUPT, p.pid, 0))
		}
		status := d.reap(p.pid).status
		d.want(status.Stopped(), "wait status %#x", status)
		d.must(d.trace(p.pid, unix.PTRACE_DETACH))
		done.open()
		d.finish(p)
	}
}

// tracerEnds runs a tracer that ends without a detach, and a process that requests to be traced.
// The kernel reports only the attach of the tracer.
func tracerEnds(d *director) {
	done := d.gate()
	p := d.traced(done)
	before := truth.Clock()
	tracer := d.script().call("ptrace", unix.SYS_PTRACE, unix.PTRACE_SEIZE, p.pid, 0, 0).end(0)
	d.do(tracer)
	d.record(truth.Record{Op: truth.Ptrace, PID: p.pid, Earliest: before, Latest: truth.Clock(), Tracer: tracer.pid})
	done.open()
	d.finish(p)
	d.do(d.script().call("ptrace", unix.SYS_PTRACE, unix.PTRACE_TRACEME, 0, 0, 0).end(3))
}

// clonePtrace lets a traced process clone with CLONE_PTRACE: the child has the same tracer from its
// birth.
func clonePtrace(d *director) {
	g := d.gate()
	p := d.script()
	child := d.script()
	child.end(3)
	p.WaitFor(g.r)
	p.child(unix.CLONE_PTRACE, child).awaitChild().end(4)
	d.start(p)
	d.must(d.trace(p.pid, unix.PTRACE_SEIZE))
	g.open()
	// The child starts stopped. A tracer that waits for any process gets the child's stop and
	// end.
	var mine, childs *ended
	var childPID int
	for mine == nil {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, unix.WALL, nil)
		d.must(err)
		switch {
		case status.Stopped():
			ptraceCall(unix.PTRACE_CONT, pid, 0)
		case pid == p.pid:
			mine = &ended{status: status, at: truth.Clock()}
		default:
			childPID, childs = pid, &ended{status: status, at: truth.Clock()}
		}
	}
	d.must(p.run.Check())
	p.readIDs()
	d.recordSteps(p, mine.at)
	d.record(p.exitRecord(*mine))
	d.want(childs == nil || childPID == child.pid, "the tracer got the end of process %d", childPID)
	if childs == nil || !childs.status.Exited() {
		e := d.reap(child.pid)
		childs = &e
	}
	d.record(child.exitRecord(*childs))
	// A source need not report the child's tracer at birth.
	d.record(truth.Record{Op: truth.Ptrace, PID: child.pid, Latest: childs.at, Tracer: d.pid, Optional: true})
	p.run.Free()
}

// leadGroup appends a setpgid(2) that makes the process the leader of a new group.
func (p *process) leadGroup() *process {
	p.event(truth.Record{Op: truth.IDs, ID: engine.ChangedPGID}, "setpgid", unix.SYS_SETPGID, 0, 0)
	p.steps[len(p.steps)-1].leads = true
	return p
}

// groupByParent makes a child the leader of a group, and another one a member of that group.
func groupByParent(d *director) {
	leader := 0
	var gates [2]*gate
	var all [2]*process
	for i := range all {
		gates[i] = d.gate()
		p := d.traced(gates[i])
		all[i], leader = p, cmp.Or(leader, p.pid)
		r := truth.Record{Op: truth.IDs, PID: p.pid, ID: engine.ChangedPGID, Earliest: truth.Clock()}
		d.must(unix.Setpgid(p.pid, leader))
		r.Latest = truth.Clock()
		r.State.Set(engine.FieldPGID, itoa(leader))
		d.record(r)
		d.observe(p.pid)
	}
	for i, p := range all {
		gates[i].release(p)
		d.finish(p)
	}
}
