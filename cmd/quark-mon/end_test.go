package main

import (
	"bufio"
	"context"
	"io"
	"testing"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/engine/enginetest"
)

// endless is a source with more events than anyone can read.
type endless struct {
	enginetest.Source
	now *enginetest.Clock
}

func (s *endless) Clock() *engine.Clock { return s.now.Engine() }

func (s *endless) Populate(to engine.Sink) error {
	s.now.Advance(10 * time.Second)
	s.Push(enginetest.Raw{Kind: engine.KindExec, PID: 7, Time: s.now.Now() - uint64(5*time.Second)})
	return s.Source.Populate(to)
}

// stopping calls stop at the first write, and counts the writes.
type stopping struct {
	stop   func()
	writes int
}

func (s *stopping) Write(b []byte) (int, error) {
	if s.writes++; s.writes > 1000 {
		panic("it goes on after the end")
	}
	s.stop()
	return len(b), nil
}

// quark-mon ends at the next event, even if the reader of the output is too slow.
func TestEndWithASlowReader(t *testing.T) {
	q, err := quark.New(&endless{now: enginetest.NewClock()}, quark.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	out := &stopping{stop: stop}
	m := &monitor{options: &options{noSnapshot: true}, q: q, out: bufio.NewWriterSize(out, 16)}
	m.chooseForm(out, io.Discard)
	if err := m.watch(ctx); err != nil {
		t.Fatal(err)
	}
}
