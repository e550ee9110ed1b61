package scenario

import (
	"fmt"

	"golang.org/x/sys/unix"

	bare "github.com/quark-linux/quark/internal/barefork"
)

// gate is a pipe at which one process waits for another.
type gate struct {
	r, w int
	d    *director
}

func (d *director) gate() *gate {
	var fds [2]int
	d.must(unix.Pipe2(fds[:], unix.O_CLOEXEC))
	return &gate{fds[0], fds[1], d}
}

// open lets one through.
func (g *gate) open() {
	_, err := unix.Write(g.w, []byte{1})
	g.d.must(err)
}

// pass waits until another process opens the gate, and fails when p ends instead.
func (g *gate) pass(p *process) {
	fds := []unix.PollFd{{Fd: int32(g.r), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 100)
		if err != nil && err != unix.EINTR {
			g.d.fail(fmt.Errorf("poll a pipe: %w", err))
		}
		// A script goes on after a call that failed, up to here perhaps.
		g.d.check(p)
		if n == 1 {
			_, err := unix.Read(g.r, make([]byte, 1))
			g.d.must(err)
			return
		}
	}
}

func (g *gate) close() {
	unix.Close(g.r)
	unix.Close(g.w)
}

// held is a process that is, or has become, an image that waits.
type held struct {
	*process
	ready, goOn *gate
}

// hold lets p execute this program, which then stands still; how it looks from
// outside is recorded. With observe unset only what it reports itself is.
func (d *director) hold(p *process, path string, argv []string, name string, code int, opts bare.Options, observe bool) *held {
	h := d.prepare(p)
	p.image(path, argv, role(name, code, 0))
	h.process = d.start(p, opts)
	h.ready.pass(p)
	if observe {
		d.observe(p.pid)
	}
	return h
}

// prepare gives p, or a child of it, the descriptors of an image that waits.
func (d *director) prepare(p *process) *held {
	h := &held{process: p, ready: d.gate(), goOn: d.gate()}
	p.call("dup3", unix.SYS_DUP3, h.goOn.r, goFD, 0).call("dup3", unix.SYS_DUP3, h.ready.w, readyFD, 0)
	return h
}

// release lets the image end.
func (h *held) release() unix.WaitStatus {
	h.goOn.open()
	status := h.d.finish(h.process)
	h.goOn.close()
	h.ready.close()
	return status
}
