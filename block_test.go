package quark_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/engine/enginetest"
)

// Block keeps waiting while the events that it reads are too young, and does not change the result
// of lookups.
func TestBlockOutlastsHolding(t *testing.T) {
	m := enginetest.NewMachine()
	sh := m.Running("/bin/sh")
	for range 20 {
		sh.Fork().Exec("/bin/true").Exit(0)
	}
	q, err := quark.New(m, quark.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	events, held := 0, 0 // when the latest Block ended
	for {
		_, err := q.Get()
		switch {
		case err == nil:
			events++
			held = 0
			continue
		case !errors.Is(err, quark.ErrNothing):
			t.Fatal(err)
		case q.Drained():
			if events < 20 {
				t.Errorf("got %d events", events)
			}
			return
		}
		if held > 0 {
			t.Fatalf("after %d events Block returned while %d were held", events, held)
		}
		before := processes(q)
		if err := q.Block(-1); err != nil {
			t.Fatal(err)
		}
		s, err := q.Stats()
		if err != nil {
			t.Fatal(err)
		}
		held = s.Buffered
		if after := processes(q); !slices.Equal(before, after) {
			t.Fatalf("Block changed the processes %s to %s", before, after)
		}
	}
}

// processes returns the known values of each process.
func processes(q *quark.Queue) (lines []string) {
	for p := range q.Processes() {
		ev := quark.Event{Process: p}
		lines = append(lines, string(q.AppendJSON(nil, &ev)))
	}
	return lines
}

// holding returns a queue whose source has one event, with a long hold time.
func holding(t *testing.T, src quark.Source, push func(...enginetest.Raw)) *quark.Queue {
	t.Helper()
	q, err := quark.New(src, quark.Options{HoldTime: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close() })
	push(enginetest.Raw{Kind: engine.KindFork, PID: 8, Time: q.Clock().Now()})
	if ev, err := q.Get(); !errors.Is(err, quark.ErrNothing) {
		t.Fatal(ev, err)
	}
	return q
}

// The timeout, Wake and Close end a Block while an event is held.
func TestBlockEndsWhileHolding(t *testing.T) {
	const pause = 120 * time.Millisecond // more than the source's interval
	src := new(enginetest.Source)
	q := holding(t, src, src.Push)
	for name, block := range map[string]func() error{
		"timeout": func() error { return q.Block(pause) },
		"Wake": func() error {
			time.AfterFunc(pause, q.Wake)
			return q.Block(-1)
		},
	} {
		start := time.Now()
		if err := block(); err != nil || time.Since(start) < pause || time.Since(start) > deadline {
			t.Errorf("%s: got error %v after %v", name, err, time.Since(start))
		}
	}
	time.AfterFunc(pause, func() { q.Close() })
	if err := q.Block(deadline); err == nil {
		t.Error("Close did not end Block")
	}
}

// brokenSource fails on request.
type brokenSource struct {
	enginetest.Source
	broken error
}

func (s *brokenSource) Populate(to engine.Sink) error {
	if s.broken != nil {
		return s.broken
	}
	return s.Source.Populate(to)
}

// If Block reads an error of the source, Get returns the error after the held events.
func TestBlockMeetsError(t *testing.T) {
	src := new(brokenSource)
	q := holding(t, src, src.Push)
	src.broken = errors.New("broken")
	if err := q.Block(deadline); err != nil {
		t.Fatal(err)
	}
	broken := src.broken
	src.broken = nil
	if ev, err := q.Get(); err != nil || ev.Process.PID != 8 {
		t.Fatal(ev, err)
	}
	for range 2 {
		if ev, err := q.Get(); !errors.Is(err, broken) {
			t.Fatal(ev, err)
		}
	}
}
