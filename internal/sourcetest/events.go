package sourcetest

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quark-linux/quark/engine"
)

// Source is a source whose events can be had as they are, without the engine.
type Source interface {
	engine.Source

	// Drain returns all that is queued, the events of each process in their
	// order, and fails the test where Populate would return an error.
	Drain(t testing.TB) Events
}

// Events are what a source told.
type Events []*engine.RawEvent

// Of returns the events of one process and kind.
func (evs Events) Of(pid int, kind engine.Kind) (of Events) {
	for _, ev := range evs {
		if int(ev.PID) == pid && ev.Kind == kind {
			of = append(of, ev)
		}
	}
	return of
}

// One returns the only event of one process and kind; else the test fails.
func (evs Events) One(t testing.TB, pid int, kind engine.Kind) *engine.RawEvent {
	t.Helper()
	of := evs.Of(pid, kind)
	if len(of) != 1 {
		t.Fatalf("%d events %v of pid %d, not 1: %s", len(of), kind, pid, evs.Kinds(pid))
	}
	return of[0]
}

// Kinds says for a message what was told of a process.
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

// Run runs a command to its end and returns its output and what s told since
// it began.
func Run(t testing.TB, s Source, c *exec.Cmd) ([]byte, Events) {
	t.Helper()
	var out bytes.Buffer
	c.Stdout = &out
	s.Drain(t)
	if err := c.Run(); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() == tryFailed {
			t.Fatal(err)
		}
	}
	time.Sleep(5 * time.Millisecond) // the parent can be told before the tracepoint is through
	return out.Bytes(), s.Drain(t)
}

// WantStatus compares an event with what the parent of the process was told.
func WantStatus(t testing.TB, ev *engine.RawEvent, c *exec.Cmd) {
	t.Helper()
	want := int32(c.ProcessState.Sys().(syscall.WaitStatus))
	if !ev.Task.Known.Has(engine.FieldExit) {
		t.Errorf("the wait status is unknown, not %#x", want)
	} else if ev.Task.Exit.WaitStatus != want {
		t.Errorf("wait status %#x, not %#x", ev.Task.Exit.WaitStatus, want)
	}
}

// WantText wants a text that is known and whole.
func WantText(t testing.TB, ev *engine.RawEvent, f engine.Field, want string) {
	t.Helper()
	if got := ev.Bytes(f); got == nil || string(got) != want || ev.Task.Truncated.Has(f) {
		t.Errorf("%v %v is %q (truncated %v), not %q", ev.Kind, f, got, ev.Task.Truncated.Has(f), want)
	}
}
