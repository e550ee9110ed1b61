package scenario

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/fidelity/truth"
)

// gate is a pipe on which one process waits for another. The end of the scenario closes it.
type gate struct {
	r, w int
	d    *director
}

func (d *director) gate() *gate {
	var fds [2]int
	d.must(unix.Pipe2(fds[:], unix.O_CLOEXEC))
	d.fds = append(d.fds, fds[:]...)
	return &gate{fds[0], fds[1], d}
}

// open lets one waiting process go on.
func (g *gate) open() {
	_, err := unix.Write(g.w, []byte{1})
	g.d.must(err)
}

// release lets one waiting process go on, so that the given ones end later than now.
func (g *gate) release(ending ...*process) {
	for _, p := range ending {
		p.released = truth.Clock()
	}
	g.open()
}

// pass waits until another process opens the gate. It ends the scenario if a system call of p has
// failed.
func (g *gate) pass(p *process) {
	fds := []unix.PollFd{{Fd: int32(g.r), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 100)
		if err != nil && err != unix.EINTR {
			g.d.fail(fmt.Errorf("poll a pipe: %w", err))
		}
		// A script goes on after a failed call, so it may open the gate all the same.
		g.d.check(p)
		if n == 1 {
			_, err := unix.Read(g.r, make([]byte, 1))
			g.d.must(err)
			return
		}
	}
}

// held is a process that executes a program that waits.
type held struct {
	*process
	ready, goOn *gate
	execer      *process    // executes: the process, or a child or thread of it
	inside      truth.State // paths as seen from the process's own root
}

// prepare gives p the descriptors that a program of [director.waiter] uses.
func (d *director) prepare(p *process) *held {
	h := &held{process: p, ready: d.gate(), goOn: d.gate(), execer: p}
	p.call("dup3", unix.SYS_DUP3, h.goOn.r, 0, 0).call("dup3", unix.SYS_DUP3, h.ready.w, 1, 0)
	return h
}

// hold lets p execute a program that waits, and records its state.
func (d *director) hold(p *process, path string, argv ...string) *held {
	h := d.prepare(p)
	p.image(path, argv, nil)
	d.start(p)
	h.await()
	return h
}

// await waits until the program runs, and records its state.
func (h *held) await() {
	h.ready.pass(h.process)
	if h.execer != h.process && !h.execer.thread {
		for i, o := range h.others {
			if o == h.execer {
				o.run, o.number, o.pid = h.run, i+1, h.started(i+1)
			}
		}
	}
	pid := h.pid
	if !h.execer.thread {
		pid = h.execer.pid
	}
	h.d.record(truth.Record{
		Op: truth.Exec, PID: pid, Earliest: h.execed(), Latest: truth.Clock(), State: h.d.look(pid), Inside: h.inside,
	})
	h.d.awaitReaders(pid)
}

// started returns the id of the i-th child or thread of p, counted from 1. It may run before clone
// returns in p.
func (p *process) started(i int) (id int) {
	await(func() bool {
		id = p.run.Thread(i)
		return id != 0
	})
	return id
}

// await polls until something is done.
func await(done func() bool) {
	for !done() {
		unix.Nanosleep(&unix.Timespec{Nsec: 100_000}, nil)
	}
}

// release lets the program end.
func (h *held) release() unix.WaitStatus {
	h.process.released = truth.Clock()
	h.execer.released = h.process.released
	h.goOn.open()
	status := h.d.finish(h.process)
	return status
}

// execed returns the time right before the execve(2).
func (h *held) execed() uint64 {
	number := 0
	for i, o := range h.others {
		if o == h.execer {
			number = i + 1
		}
	}
	t, ok := h.run.Stamp(number, h.execer.last)
	h.d.want(ok, "process %d has not come to its exec", h.pid)
	return t
}
