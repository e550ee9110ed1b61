package main

import (
	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine"
)

// twoQueues opens two more queues of each backend, and closes the older of them first.
func twoQueues(t *test) {
	t.watch(single)
	second, third := t.openEach(quark.Options{}), t.openEach(quark.Options{})
	t.wantWorking("all open")
	t.close(second...)
	t.wantWorking("the second closed")
	t.close(third...)
	t.wantWorking("the third closed")
}

// wantWorking checks that all open queues report a whole life and lose nothing.
func (t *test) wantWorking(when string) {
	t.mark()
	p := t.start([]string{"working", when}, 4)
	t.each(func(v *view) {
		exec := v.awaitEvent(p.proc, "EXEC", has(engine.EventExec))
		v.check("EXEC, "+when, exec.Process, p.truth, v.fields(engine.EventExec))
	})
	p.finish(t)
	t.wantLives(1, p.proc)
	t.each(func(v *view) {
		if n := lost(v.stats()) - lost(v.before); n != 0 {
			v.Errorf("%s: %d lost", when, n)
		}
	})
}
