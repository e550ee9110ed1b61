package scenario

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
	bare "github.com/quark-linux/quark/internal/barefork"
)

func leaderFirst(d *director) {
	for _, last := range []func(*bare.Script) *bare.Script{
		func(s *bare.Script) *bare.Script { return s.Exit(7) },
		func(s *bare.Script) *bare.Script { return s.ExitThread(3) },
		func(s *bare.Script) *bare.Script { return s.ExitThread(5) },
	} {
		g := d.gate()
		p := d.script()
		p.Thread(last(new(bare.Script).WaitFor(g.r))).ExitThread(3)
		d.start(p, bare.Options{})
		d.awaitZombieLeader(p)
		g.open()
		d.finish(p)
		g.close()
	}
}

// awaitZombieLeader waits until the leader has ended.
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
	for i := range 5 {
		p := d.script()
		p.Thread(new(bare.Script).Exit(20 + i)).Stop()
		status := d.do(p)
		d.want(status.ExitStatus() == 20+i, "wait status %#x", status)
	}
}

// kill returns a scenario of deaths by a signal, without a core dump.
func kill(sig unix.Signal) func(*director) {
	return func(d *director) {
		for range 3 {
			g := d.gate()
			p := d.script().call("prlimit64", unix.SYS_PRLIMIT64, 0, unix.RLIMIT_CORE, []unix.Rlimit{{}}, nil)
			p.stamp()
			p.Tell(g.w).Stop()
			d.start(p, bare.Options{})
			g.pass(p)
			before := truth.Clock()
			d.must(unix.Kill(p.pid, sig))
			status := d.finish(p)
			d.want(status.Signal() == sig && !status.CoreDump(), "wait status %#x", status)
			if sig == unix.SIGSEGV {
				// The kernel begins to dump and finds that it must not.
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
	d.start(p, bare.Options{})
	g.pass(p)
	before := truth.Clock()
	d.must(unix.Kill(p.pid, unix.SIGSEGV))
	status := d.finish(p)
	g.close()
	if !status.CoreDump() {
		pattern, _ := os.ReadFile("/proc/sys/kernel/core_pattern")
		d.skip("the kernel wrote no core: kernel.core_pattern is %q", strings.TrimSpace(string(pattern)))
	}
	d.record(truth.Record{Op: truth.Core, PID: p.pid, Earliest: before, Latest: truth.Clock()})
}

// daemon makes a process whose parent ends, so that the subreaper becomes its parent.
func daemon(d *director) {
	for range 2 {
		h := &held{ready: d.gate(), goOn: d.gate()}
		child := d.script()
		child.call("dup3", unix.SYS_DUP3, h.goOn.r, goFD, 0).call("dup3", unix.SYS_DUP3, h.ready.w, readyFD, 0)
		child.image(d.self, []string{"daemon"}, role("wait", 6, 0))
		h.process = d.start(d.script().setsid().child(0, child).end(0), bare.Options{})
		h.ready.pass(h.process)
		// The parent has been waited for, so the daemon has a new one.
		status := d.reapOnly(h.process)
		child.pid = h.run.Thread(1)
		d.observe(child.pid)
		h.goOn.open()
		d.finishReaped(h.process, status)
	}
}

// setsid appends the event of that name.
func (p *process) setsid() *process {
	p.event(truth.Record{Op: truth.IDs, ID: engine.ChangedSID}, "setsid", unix.SYS_SETSID)
	p.steps[len(p.steps)-1].leads = true
	return p
}
