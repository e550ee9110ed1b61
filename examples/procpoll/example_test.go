//go:build linux

package procpoll_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/examples/procpoll"
)

// Print the events of the next second from a read of /proc every 20 ms.
func Example() {
	src, err := procpoll.Open(os.DirFS("/proc"), 20*time.Millisecond)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	q, err := quark.New(src, quark.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer q.Close()
	time.AfterFunc(time.Second, func() { q.Drain() })
	for ev, err := range q.Events(context.Background()) {
		switch {
		case err != nil:
			fmt.Fprintln(os.Stderr, err)
			return
		case ev.Events.Has(quark.EventGap):
			fmt.Println(ev.Gap.Count, "tasks came and went between two readings")
		default:
			fmt.Println(ev.Events, ev.Process.PID, ev.Process.Comm)
		}
	}
}
