package main

import (
	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine"
)

// threads starts threads with and without the option to see them.
func threads(t *test) {
	for _, want := range []bool{false, true} {
		if want {
			t.open(quark.Options{Threads: true})
		} else {
			t.listen()
		}
		first, end := t.gate("the thread to end"), t.gate("the end")
		p := t.spawn(script().Thread(script().WaitFor(first.r).ExitThread(0)).WaitFor(end.r).Exit(6), barefork{})
		t.await("the thread to start", func() bool { return p.Thread(1) != 0 })
		tid := p.Thread(1)
		thread := func(kind engine.Events) func(*quark.Event) bool {
			return func(ev *quark.Event) bool { return ev.Thread && ev.Events == kind && int(ev.TID) == tid }
		}
		if want {
			t.awaitEvent(p, "FORK of a thread", thread(engine.EventFork))
		}
		first.open()
		if want {
			t.awaitEvent(p, "EXIT of a thread", thread(engine.EventExit))
		}
		t.settle()
		if known := t.q.Lookup(uint32(p.PID)); known == nil || known.Exited {
			t.Errorf("the process is not known, or marked as ended, after a thread of it ended")
		}
		end.open()
		t.reap(p)
		t.wantLife(p, 0)
		n := 0
		for _, ev := range t.of(p) {
			if ev.Thread {
				n++
			}
		}
		if wanted := 2; want && n != wanted || !want && n != 0 {
			t.Errorf("%d events of threads, Threads is %v: %s", n, want, t.history(p))
		}
	}
}
