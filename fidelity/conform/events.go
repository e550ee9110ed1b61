package conform

import (
	"cmp"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quark-linux/quark/engine"
)

// Events are raw events of a source.
type Events []*engine.RawEvent

// Of returns the events of one kind of a process.
func (evs Events) Of(pid int, kind engine.Kind) (of Events) {
	for _, ev := range evs {
		if int(ev.PID) == pid && ev.Kind == kind {
			of = append(of, ev)
		}
	}
	return of
}

// One returns the only event of one kind of a process. The test fails if there is
// none or more than one.
func (evs Events) One(t testing.TB, pid int, kind engine.Kind) *engine.RawEvent {
	t.Helper()
	of := evs.Of(pid, kind)
	if len(of) != 1 {
		t.Fatalf("pid %d has %d %v events, want 1: %s", pid, len(of), kind, evs.Kinds(pid))
	}
	return of[0]
}

// Kinds lists the events of a process for a message.
func (evs Events) Kinds(pid int) string {
	var s []string
	for _, ev := range evs {
		if int(ev.PID) == pid {
			s = append(s, fmt.Sprintf("%v(tid %d, thread %v, %q %q)", ev.Kind, ev.TID, ev.Thread,
				ev.Bytes(engine.FieldComm), ev.Bytes(engine.FieldFilename)))
		}
	}
	return strings.Join(s, " ")
}

// Room is of an [engine.Sink] that keeps all, as Reserve, Insert and Release are.
func (evs *Events) Room() int                  { return 1 << 20 }
func (evs *Events) Reserve() *engine.RawEvent  { return new(engine.RawEvent) }
func (evs *Events) Insert(ev *engine.RawEvent) { *evs = append(*evs, ev) }
func (evs *Events) Release(*engine.RawEvent)   {}

// Drain returns what s has queued, ordered by time as the engine would deliver it. The
// test fails if s met a record that it could not decode.
func Drain(t testing.TB, s engine.Source) Events {
	t.Helper()
	evs, err := drain(s)
	if err != nil {
		t.Fatal(err)
	}
	return evs
}

func drain(s engine.Source) (evs Events, err error) {
	if err := s.Populate(&evs); err != nil {
		return nil, fmt.Errorf("populate: %w", err)
	}
	evs = slices.DeleteFunc(evs, func(ev *engine.RawEvent) bool { return ev.Kind == engine.KindGap })
	slices.SortStableFunc(evs, func(a, b *engine.RawEvent) int { return cmp.Compare(a.Time, b.Time) })
	st, err := s.Stats()
	if err == nil && st.Lost[engine.LossDecode] != 0 {
		err = fmt.Errorf("the source could not decode %d records", st.Lost[engine.LossDecode])
	}
	return evs, err
}

// Run drains s, runs a command to its end and returns what s has reported since. The
// test fails if the command does not start or calls Try with an error.
func Run(t testing.TB, s engine.Source, c *exec.Cmd) Events {
	t.Helper()
	Drain(t, s)
	if err := c.Run(); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() == tryFailed {
			t.Fatal(err)
		}
	}
	// wait(2) can return before the end is reported, and reports can be repeated.
	var evs Events
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if evs = append(evs, Drain(t, s)...); len(evs.Of(c.Process.Pid, engine.KindExit)) > 0 {
			break
		}
	}
	time.Sleep(5 * time.Millisecond)
	return append(evs, Drain(t, s)...)
}
