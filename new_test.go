package quark_test

import (
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/engine/enginetest"
)

// deadline is for what normally takes milliseconds.
const deadline = 30 * time.Second

// recorded is a source with its own clock and first processes, which ends.
type recorded struct {
	enginetest.Source
	clock *enginetest.Clock
}

func (s *recorded) Clock() engine.Clock { return s.clock.Engine() }

func (s *recorded) Scan(f func(*engine.RawEvent) error) error {
	r := &engine.RawEvent{PID: 7}
	r.Set(engine.FieldComm, []byte("init"))
	return f(r)
}

func (s *recorded) Populate(to engine.Sink) error {
	if s.Queued() == 0 {
		return io.EOF
	}
	return s.Source.Populate(to)
}

// A queue on any source: its clock and processes count, and its end is that of the queue.
func TestNew(t *testing.T) {
	src := &recorded{clock: enginetest.NewClock()}
	now := src.clock.Now()
	src.Push(enginetest.Raw{Kind: engine.KindFork, PID: 8, Creator: 7, Time: now}, enginetest.Raw{Kind: engine.KindExit, PID: 8, Time: now + 1})
	q, err := quark.New(src, quark.Options{HoldTime: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if p := q.Lookup(7); p == nil || p.Comm != "init" || p.AsOf() != now || q.Backend() != src.Name() {
		t.Errorf("process 7 is %+v", p)
	}
	var got []string
	for ev, err := range q.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, ev.Wall.UTC().Format("05 ")+ev.Events.String())
	}
	if !slices.Equal(got, []string{"01 FORK+EXIT"}) || !q.Drained() {
		t.Errorf("events %q, drained %v", got, q.Drained())
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	if err := src.Source.Populate(nil); err != os.ErrClosed {
		t.Errorf("the source after Close: %v", err)
	}
	src = &recorded{clock: src.clock}
	if _, err := quark.New(src, quark.Options{MaxLength: -1}); err == nil || !strings.Contains(err.Error(), "option MaxLength is -1") ||
		src.Source.Populate(nil) != os.ErrClosed {
		t.Errorf("a wrong option: %v", err)
	}
}

// A source without a descriptor is polled.
func TestNewPolls(t *testing.T) {
	src := new(enginetest.Source)
	q, err := quark.New(src, quark.Options{HoldTime: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	for i, wait := 0, time.Now().Add(deadline); ; i++ {
		if _, err := q.Get(); err == nil {
			return
		}
		if err := q.Block(-1); err != nil || time.Now().After(wait) {
			t.Fatalf("no event: %v", err)
		}
		if i == 3 {
			src.Push(enginetest.Raw{Kind: engine.KindFork, PID: 8, Time: 1})
		}
	}
}
