package monitor

import (
	"slices"
	"testing"
	"time"
)

// Output that arrives while the inbox is held is received after the release, in order, with its
// times, up to the limit.
func TestInbox(t *testing.T) {
	b := newInbox(10)
	b.hold(true)
	text := []byte("abc")
	if !b.put(text, 1) || !b.put([]byte("defghij"), 2) || b.put([]byte("k"), 3) {
		t.Error("got room for ten bytes, want less")
	}
	text[0] = 'x' // the reader reuses its buffer
	type taken struct {
		list []chunk
		ok   bool
	}
	out := make(chan taken)
	take := func() {
		list, ok := b.receive()
		out <- taken{list, ok}
	}
	go take()
	select {
	case got := <-out:
		t.Errorf("got %v while the inbox is held", got)
	case <-time.After(20 * time.Millisecond):
	}
	b.hold(false)
	got := <-out
	if !got.ok || !slices.EqualFunc(got.list, []chunk{{[]byte("abc"), 1}, {[]byte("defghij"), 2}}, func(x, y chunk) bool {
		return string(x.text) == string(y.text) && x.at == y.at
	}) {
		t.Errorf("got %+v", got)
	}
	if !b.put([]byte("l"), 4) {
		t.Error("got no room after the release")
	}
	b.close()
	if list, ok := b.receive(); !ok || len(list) != 1 {
		t.Errorf("got %q, %v", list, ok)
	}
	if _, ok := b.receive(); ok {
		t.Error("got chunks after the end")
	}
}
