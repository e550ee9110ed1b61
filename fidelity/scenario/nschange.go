package scenario

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
	bare "github.com/quark-linux/quark/internal/barefork"
)

// nsRead is two readings of a namespace: the calls of readlinkat(2) before and after a change.
type nsRead struct {
	namespace
	before, after int
}

// readNS appends the reading of a link of the thread to one of its namespaces.
func (p *process) readNS(ns namespace) (call int) {
	const most = 64
	p.call("readlinkat", unix.SYS_READLINKAT, procFD, "thread-self/"+cmp.Or(ns.own, ns.link), bare.Buffer(most), most)
	return p.Len() - 1
}

// numbers returns the numbers that both readings show, 0 for a link without a target. read is false
// if the process ended before the second one.
func (p *process) numbers(ns nsRead) (was, now uint64, read bool) {
	number := func(call int) (number uint64) {
		var n int
		if n, read = p.run.Result(p.number, call); n > 0 {
			_, text, _ := strings.Cut(string(p.run.Bytes(p.number, call, 2, n)), "[")
			number, _ = strconv.ParseUint(strings.TrimSuffix(text, "]"), 10, 32)
		}
		return number
	}
	if was, read = number(ns.before), true; ns.after != 0 { // never the first call
		now = number(ns.after)
	}
	return was, now, read
}

// switchNS appends a setns(2) or unshare(2) that may change the given namespaces, and its events.
// The user namespace has an event of its own: before the other namespaces in setns(2), after them
// in unshare(2). It returns the index of the call.
func (p *process) switchNS(names []string, name string, number uintptr, args ...any) (call int) {
	var user, others []nsRead
	for _, n := range names {
		if ns := namespaces[n]; !ns.available() {
			p.d.skip("the kernel has no %s namespaces", n)
		} else if read := (nsRead{namespace: ns, before: p.readNS(ns)}); n == "user" {
			user = append(user, read)
		} else {
			others = append(others, read)
		}
	}
	before := p.stamp()
	call = p.Len()
	p.call(name, number, args...).stamp()
	for _, reads := range [][]nsRead{user, others} {
		for i := range reads {
			// Many kernels do not show a new pid namespace before the first child.
			if reads[i].bit != engine.ChangedPID || number == unix.SYS_SETNS {
				reads[i].after = p.readNS(reads[i].namespace)
			}
		}
	}
	order := [][]nsRead{others, user}
	if number == unix.SYS_SETNS {
		slices.Reverse(order)
	}
	for i, reads := range order {
		s := step{call: call, before: before, record: truth.Record{Op: truth.NS}, ns: reads}
		if i == 0 {
			s.nsLater = order[1]
		}
		p.steps = append(p.steps, s)
	}
	return call
}

// addNS adds the changed namespaces to the record of a step. It returns false if none has changed.
// later are the namespaces that the same call changes after this event.
func (p *process) addNS(r *truth.Record, reads, later []nsRead) bool {
	certain := true
	for _, ns := range reads {
		was, now, read := p.numbers(ns)
		switch certain = certain && read; {
		case !read, now != 0 && now == was:
			continue
		case ns.bit == engine.ChangedPID:
			r.NS.NewPID = uint32(now)
		default:
			r.Open |= ns.changes()
			r.State.Set(ns.field, strconv.FormatUint(now, 10))
		}
		r.NS.Changed |= ns.bit
		r.NS.Old[ns.index()] = uint32(was)
	}
	for _, ns := range slices.Concat(reads, later) {
		if was, now, read := p.numbers(ns); (!read || now != was) && !r.State.Known.Has(ns.field) && ns.bit != engine.ChangedPID {
			r.Open |= ns.changes()
		}
	}
	if !certain { // whether it happened is unknown
		r.Optional, r.NS = true, truth.NSChange{}
	}
	return r.NS.Changed != 0 || !certain
}

// nsChanges changes namespaces in several ways.
func nsChanges(d *director) {
	const some = unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP
	names := []string{"uts", "ipc", "net", "cgroupns"}
	own := func() *process {
		p := d.script()
		p.mayFail = true
		return p
	}
	unshare := func(p *process, flags int, names ...string) *process {
		p.switchNS(names, "unshare", unix.SYS_UNSHARE, flags)
		return p
	}
	// Several at once, one after the other, and in a user namespace.
	d.pauseAndEnd(unshare(own(), some|unix.CLONE_NEWNS|unix.CLONE_NEWPID, append(names, "mnt", "pid")...), 0)
	p := own()
	for range 3 {
		unshare(p, unix.CLONE_NEWUTS, "uts")
	}
	d.pauseAndEnd(unshare(p, unix.CLONE_NEWUTS|unix.CLONE_NEWNET, "uts", "net"), 0)
	d.pauseAndEnd(unshare(unshare(own(), some|unix.CLONE_NEWUSER, append(names, "user")...), some, names...), 0)

	// A target, entered by a descriptor of it, and left again.
	target := d.hold(unshare(own(), some|unix.CLONE_NEWUSER, append(names, "user")...), d.waiter(0), "target")
	fd, _, errno := unix.Syscall(unix.SYS_PIDFD_OPEN, uintptr(target.pid), 0, 0)
	if errno == 0 {
		d.fds = append(d.fds, int(fd))
		p = own()
		p.switchNS(append(names, "user"), "setns", unix.SYS_SETNS, int(fd), some|unix.CLONE_NEWUSER)
		d.pauseAndEnd(p, 0)
		p = own()
		for range 2 { // the second call changes nothing
			p.switchNS(names, "setns", unix.SYS_SETNS, int(fd), some)
		}
		back := d.keep(unix.Open("/proc/self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0))
		p.switchNS([]string{"net"}, "setns", unix.SYS_SETNS, back, 0)
		d.pauseAndEnd(p, 0)
	}
	target.release()

	// Calls that fail, and a thread, whose change is not its process's.
	p = d.script()
	p.call("setns", unix.SYS_SETNS, -1, 0).Fails(unix.EBADF)
	p.call("unshare", unix.SYS_UNSHARE, unix.CLONE_NEWUTS|1).Fails(unix.EINVAL)
	d.pauseAndEnd(p, 0)
	g, done, thread := d.gate(), d.gate(), d.script()
	unshare(thread, unix.CLONE_NEWUTS, "uts").Notify(g.w).Stop()
	p = d.script()
	p.startThread(thread).WaitFor(done.r)
	d.observeAt(p.end(0), g, done)
}

// compatNS changes namespaces by 32-bit system calls.
func compatNS(d *director) {
	d.compat(d.script(), 4) // to skip the scenario first
	path := d.compatProgram(compatCall{compatUnshare, unix.CLONE_NEWUTS}, compatCall{compatPause})
	p, before := d.script(), truth.Clock()
	d.start(p.image(path, []string{"compat"}, nil))
	uts, was, now := namespaces["uts"], "", ""
	inode := func(pid int) string {
		link, _ := os.Readlink("/proc/" + itoa(pid) + "/ns/uts")
		return strings.Trim(link, "uts:[]")
	}
	was = inode(d.pid)
	await(func() bool {
		now = inode(p.pid)
		return now != was && d.state(p) == 'S'
	})
	d.record(truth.Record{Op: truth.Exec, PID: p.pid, Earliest: before, Latest: truth.Clock()})
	r := truth.Record{Op: truth.NS, PID: p.pid, Earliest: before, Latest: truth.Clock(), Compat: true}
	r.NS.Changed = uts.bit
	fmt.Sscan(was, &r.NS.Old[uts.index()])
	r.State.Set(uts.field, now)
	d.record(r)
	d.must(unix.Kill(p.pid, unix.SIGKILL))
	d.finish(p)
}
