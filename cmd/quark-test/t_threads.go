package main

import "github.com/quark-linux/quark/engine"

// withoutThreads starts a thread for queues that are not to report any.
func withoutThreads(t *test) {
	t.watch()
	t.threadLives(0)
}

// threads starts a thread for queues that are to report them.
func threads(t *test) {
	t.watch()
	t.threadLives(2)
}

// threadLives has a thread of a process live and end, of which there are to be so
// many events.
func (t *test) threadLives(events int) {
	first, end := t.gate("the thread to end"), t.gate("the end")
	p := t.spawn(script().Thread(script().WaitFor(first.r).ExitThread(0)).WaitFor(end.r).Exit(6), barefork{})
	t.await("the thread to start", func() bool { return p.Thread(1) != 0 })
	tid := p.Thread(1)
	thread := func(kind engine.Events) func(*event) bool {
		return func(ev *event) bool { return ev.Thread && ev.Events == kind && int(ev.TID) == tid }
	}
	if events > 0 {
		t.awaitEvent(p, "FORK of a thread", thread(engine.EventFork))
	}
	first.open()
	if events > 0 {
		t.awaitEvent(p, "EXIT of a thread", thread(engine.EventExit))
	}
	t.settle()
	t.each(func(v *view) {
		if known := v.q.Lookup(uint32(p.PID)); known == nil || known.Exited {
			v.Errorf("the process is not known, or marked as ended, after a thread of it ended")
		}
	})
	end.open()
	t.reap(p)
	t.wantLives(0, p)
	t.each(func(v *view) {
		n := 0
		for _, ev := range v.of(p) {
			if ev.Thread {
				n++
			}
		}
		if n != events {
			v.Errorf("%d events of threads, want %d: %s", n, events, v.history(p))
		}
	})
}
