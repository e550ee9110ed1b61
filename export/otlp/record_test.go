package otlp

import (
	"context"
	"testing"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine/enginetest"
)

// A record takes few allocations. The SDK's types take three for each of its 30 attributes.
func TestAllocations(t *testing.T) {
	q, err := quark.New(enginetest.Trace(t, "../../engine/enginetest/testdata/ebpf-6.18.trace"), quark.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	var events []*quark.Event
	for ev, err := range q.Events(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, ev.Clone())
	}
	r := newRecorder(q, nil)
	i := 0
	const limit = 12
	if n := testing.AllocsPerRun(len(events), func() {
		r.record(events[i%len(events)])
		i++
	}); n > limit {
		t.Errorf("%v allocations a record, at most %d are fine", n, limit)
	}
}
