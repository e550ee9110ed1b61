package monitor

import (
	"slices"
	"testing"
	"time"
)

// Output that arrives while the inbox is held comes out afterwards, in order, with its times, up to
// the limit.
func TestInbox(t *testing.T) {
	b := newInbox(10)
	b.hold(true)
	text := []byte("abc")
	if !b.put(text, 1) || !b.put([]byte("defghij"), 2) || b.put([]byte("k"), 3) {
		t.Error("there is room for ten bytes")
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
		t.Errorf("%v while it is held", got)
	case <-time.After(20 * time.Millisecond):
	}
	b.hold(false)
	got := <-out
	if !got.ok || !slices.EqualFunc(got.list, []chunk{{[]byte("abc"), 1}, {[]byte("defghij"), 2}}, func(x, y chunk) bool {
		return string(x.text) == string(y.text) && x.at == y.at
	}) {
		t.Errorf("%+v", got)
	}
	if !b.put([]byte("l"), 4) {
		t.Error("there is no room after the release")
	}
	b.close()
	if list, ok := b.receive(); !ok || len(list) != 1 {
		t.Errorf("%q, %v", list, ok)
	}
	if _, ok := b.receive(); ok {
		t.Error("more after the end")
	}
}
