package scenario

import (
	"github.com/quark-linux/quark/fidelity/truth"
)

// threads200 executes this program, which starts threads without recording them.
func threads200(d *director) {
	d.do(d.light().image(d.self, []string{"threads"}, role("threads", 3, scale(200, 50))))
}

// threadEnds has threads that end one after the other while their process lives on, and one that
// lives until the process ends.
func threadEnds(d *director) {
	for range scale(3, 1) {
		gates := []*gate{d.gate(), d.gate()}
		end := d.gate()
		p := d.script()
		var threads []*process
		for _, g := range gates {
			t := d.script()
			t.WaitFor(g.r)
			threads = append(threads, t.endThread(0))
			p.startThread(t)
		}
		stays := d.script()
		stays.Stop()
		p.startThread(stays).WaitFor(end.r)
		d.start(p.end(6))
		for i, g := range gates {
			threads[i].released = truth.Clock()
			g.open()
			d.awaitReaders(p.pid)
		}
		p.released = truth.Clock()
		stays.released = p.released
		end.open()
		d.finish(p)
		for _, g := range append(gates, end) {
			g.close()
		}
	}
}
