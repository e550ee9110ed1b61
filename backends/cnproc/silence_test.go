package cnproc

import (
	"testing"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/clock"
)

// Before Linux 6.6, a program can cancel subscriptions that it did not make. The kernel then sends
// no events to any source. A source reports a gap and subscribes again, which also helps sources
// that open later.
func TestCancelledSubscriptions(t *testing.T) {
	first, stranger := openOnKernel(t, Options{Enrich: source.EnrichNone}), openOnKernel(t, Options{Enrich: source.EnrichNone})
	got := &sink{room: 1 << 20}
	live := func() (exits int) {
		t.Helper()
		storm(t, 1)
		before := len(got.events)
		if err := first.Populate(got); err != nil {
			t.Fatal(err)
		}
		for _, ev := range got.events[before:] {
			if ev.Kind == engine.KindExit {
				exits++
			}
		}
		return exits
	}
	if live() == 0 {
		t.Fatal("got no events before the cancelled subscriptions")
	}
	const owed = 8 // more than the other listeners of this machine
	for range owed {
		if err := send(stranger.fd, request(0, opIgnore)); err != nil {
			t.Fatal(err)
		}
	}
	from := clock.Monotonic()
	exits := live()
	first.silence.next = min(first.silence.next, 1) // check now, not in some seconds
	for range owed + 1 {
		live()
		first.silence.next = min(first.silence.next, 1)
	}
	if live() == 0 {
		t.Error("got no events after the source subscribed again")
	}
	var gap *engine.Gap
	for _, ev := range got.events {
		if ev.Kind == engine.KindGap && ev.Gap.Cause == engine.LossUnseen {
			gap = ev.Gap
			break
		}
	}
	st, err := first.Stats()
	switch {
	case err != nil:
		t.Error(err)
	case !countsRequests():
		if exits == 0 || gap != nil || st.Bound {
			t.Errorf("a kernel that does not count requests: got %d exits, gap %v, bound %v", exits, gap, st.Bound)
		}
	case exits != 0:
		t.Skip("other listeners of this machine prevent a silence")
	case gap == nil || !st.Bound:
		t.Errorf("after a silence: got gap %v, bound %v", gap, st.Bound)
	case gap.From > from || gap.To < from || gap.Count != 0:
		t.Errorf("got gap %+v, want it from %d on", *gap, from)
	}
	for range owed { // the kernel's count goes below 0
		send(stranger.fd, request(0, opIgnore))
	}
	openOnKernel(t, Options{Enrich: source.EnrichNone})
}
