package main

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/engine"
)

// wakeUp checks that an event wakes a reader that sleeps in Block, and then one that polls the
// descriptor.
func wakeUp(t *test) {
	t.watch(single)
	t.eachQueue(func(v *view) {
		for range 2 {
			t.sleepUntilExit(v, "Block", v.q.Block)
		}
		fd := v.q.FD()
		for range 2 {
			t.sleepUntilExit(v, "the descriptor", func(longest time.Duration) error {
				_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(longest.Milliseconds()))
				if errors.Is(err, unix.EINTR) {
					return nil
				}
				return err
			})
		}
	})
}

func (t *test) sleepUntilExit(v *view, what string, sleep func(time.Duration) error) {
	end := t.gate("the end")
	p := t.spawn(script().WaitFor(end.r).Exit(0), barefork{Share: true})
	v.awaitEvent(p, "FORK", hasKinds(engine.EventFork))
	// On a busy machine the queue never becomes quiet, and other events may also wake the
	// reader.
	patience := time.Now().Add(20 * shortHold)
	v.await("quiet", func() bool {
		s := v.stats()
		return s.Buffered == 0 && s.Source.Produced == s.Insertions+s.Lost() || time.Now().After(patience)
	})
	opener := time.AfterFunc(shortHold, end.open)
	defer opener.Stop()
	v.Waiting("the end of a process with " + what)
	for longest := v.deadline / 4; ; {
		v.pump()
		if v.count(p, engine.EventExit) > 0 {
			break
		}
		begin := time.Now()
		if err := sleep(longest); err != nil {
			v.Fatalf("%s: %v", what, err)
		}
		if time.Since(begin) >= longest {
			v.Fatalf("%s did not return when a process ended", what)
		}
	}
	t.reapUnread(p)
}
