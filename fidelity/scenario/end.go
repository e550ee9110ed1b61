package scenario

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
)

// leaderFirst ends leaders with status 3 while another thread lives on, which then ends in each of
// several ways.
func leaderFirst(d *director) {
	for _, last := range []func(*process){
		func(t *process) { t.end(7) },
		func(t *process) { t.endThread(3) },
		func(t *process) { t.endThread(5) },
		func(t *process) { t.endThread(0) },
		func(t *process) { t.Stop() }, // ended by the signal below
	} {
		g := d.gate()
		p, t := d.script(), d.script()
		t.WaitFor(g.r)
		last(t)
		d.start(p.startThread(t).endThread(3))
		d.awaitZombieLeader(p)
		d.awaitReaders(p.pid)
		p.released = truth.Clock()
		t.released = p.released
		g.open()
		if t.last < 0 {
			d.must(unix.Kill(p.pid, unix.SIGTERM))
		}
		d.finish(p)
		g.close()
	}
}

// endTogether lets all threads of a process end at the same moment, each by exit(2), so that the
// kernel may treat several of them as the last.
func endTogether(d *director) {
	for range scale(50, 10) {
		g := d.gate()
		p := d.script()
		for range 4 {
			t := d.script()
			t.WaitFor(g.r)
			p.startThread(t.endThread(5))
		}
		p.WaitFor(g.r)
		d.start(p.endThread(5))
		_, err := unix.Write(g.w, make([]byte, 5))
		d.must(err)
		d.finish(p)
		g.close()
	}
}

// awaitZombieLeader waits until the leader has ended and is a zombie.
func (d *director) awaitZombieLeader(p *process) {
	for i := 0; ; i++ {
		b, err := os.ReadFile("/proc/" + itoa(p.pid) + "/stat")
		d.must(err)
		if _, after, _ := strings.Cut(string(b), ") "); strings.HasPrefix(after, "Z") {
			return
		}
		unix.Nanosleep(&unix.Timespec{Nsec: 100_000}, nil)
	}
}

func exitGroupThread(d *director) {
	for i := range scale(8, 4) {
		p := d.script()
		p.startThread(d.script().end(20 + i)).Stop()
		status := d.do(p)
		d.want(status.ExitStatus() == 20+i, "wait status %#x", status)
	}
}

// kill returns a scenario of deaths by a signal, without a core dump.
func kill(sig unix.Signal) func(*director) {
	return func(d *director) {
		for range scale(3, 1) {
			g := d.gate()
			p := d.script().call("prlimit64", unix.SYS_PRLIMIT64, 0, unix.RLIMIT_CORE, []unix.Rlimit{{}}, nil)
			p.stamp()
			p.Tell(g.w).Stop()
			d.start(p)
			g.pass(p)
			p.released = truth.Clock()
			before := truth.Clock()
			d.must(unix.Kill(p.pid, sig))
			status := d.finish(p)
			d.want(status.Signal() == sig && !status.CoreDump(), "wait status %#x", status)
			if sig == unix.SIGSEGV {
				// The kernel starts a core dump before it finds that it must not.
				d.record(truth.Record{Op: truth.Core, PID: p.pid, Earliest: before, Latest: truth.Clock(), Optional: true})
			}
			g.close()
		}
	}
}

func killCore(d *director) {
	g := d.gate()
	limit := []unix.Rlimit{{Cur: 64 << 20, Max: 64 << 20}}
	p := d.script().call("chdir", unix.SYS_CHDIR, d.dir)
	p.call("prlimit64", unix.SYS_PRLIMIT64, 0, unix.RLIMIT_CORE, limit, nil)
	var at truth.State
	at.Set(engine.FieldCwd, d.dir)
	p.look(at)
	p.Tell(g.w).Stop()
	d.start(p)
	g.pass(p)
	before := truth.Clock()
	p.released = before
	d.must(unix.Kill(p.pid, unix.SIGSEGV))
	status := d.finish(p)
	g.close()
	if !status.CoreDump() {
		pattern, _ := os.ReadFile("/proc/sys/kernel/core_pattern")
		d.skip("the kernel wrote no core: kernel.core_pattern is %q", strings.TrimSpace(string(pattern)))
	}
	d.record(truth.Record{Op: truth.Core, PID: p.pid, Earliest: before, Latest: truth.Clock()})
}

// daemon runs a process whose parent ends, so that the subreaper becomes its parent.
func daemon(d *director) {
	for range scale(2, 1) {
		child := d.script()
		h := d.prepare(child)
		child.image(d.waiter(6), []string{"daemon"}, nil)
		h.process = d.start(d.script().setsid().child(0, child).end(0))
		// Once the parent has been waited for, the daemon has its new parent.
		parent := d.reap(h.pid)
		h.await()
		child.released = truth.Clock()
		h.goOn.open()
		d.finishReaped(h.process, parent)
		h.goOn.close()
		h.ready.close()
	}
}

// setsid appends setsid(2) and its event.
func (p *process) setsid() *process {
	p.event(truth.Record{Op: truth.IDs, ID: engine.ChangedSID}, "setsid", unix.SYS_SETSID)
	p.steps[len(p.steps)-1].leads = true
	return p
}
