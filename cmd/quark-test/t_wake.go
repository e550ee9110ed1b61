package main

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine"
)

// wakeUp has a reader sleep until something happens, which must end its sleep:
// in Block, and with the descriptor after that.
func wakeUp(t *test) {
	q := t.listen()
	fd := -1
	sleep := func(longest time.Duration) error {
		if fd < 0 {
			return q.Block(longest)
		}
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(longest.Milliseconds()))
		if errors.Is(err, unix.EINTR) {
			return nil
		}
		return err
	}
	for range 2 {
		t.sleepUntilExit(q, "Block", sleep)
	}
	fd = q.FD()
	for range 2 {
		t.sleepUntilExit(q, "the descriptor", sleep)
	}
}

func (t *test) sleepUntilExit(q *quark.Queue, what string, sleep func(time.Duration) error) {
	end := t.gate("the end")
	p := t.spawn(script().WaitFor(end.r).Exit(0), barefork{Share: true})
	t.awaitEvent(p, "FORK", has(engine.EventFork))
	t.await("quiet", func() bool {
		s, err := q.Stats()
		return err == nil && s.Buffered == 0 && s.Source.Produced == s.Insertions+s.Lost()
	})
	opener := time.AfterFunc(shortHold, end.open)
	defer opener.Stop()
	t.Waiting("the end of a process with " + what)
	for longest := t.Limit / 4; ; {
		t.pump()
		if t.count(p, engine.EventExit) > 0 {
			break
		}
		begin := time.Now()
		if err := sleep(longest); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if time.Since(begin) >= longest {
			t.Fatalf("%s did not say that a process ended", what)
		}
	}
	t.reap(p)
}
