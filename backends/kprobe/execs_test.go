package kprobe

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/quark-linux/quark/engine"
)

// failedExecs is an [engine.Sink] that records the failed execs.
type failedExecs struct {
	oneEventSink
	room int
	got  []string
}

func (e *failedExecs) Room() int { return e.room - len(e.got) }

func (e *failedExecs) Insert(ev *engine.RawEvent) {
	text := fmt.Sprintf("%d/%d at %d: %d", ev.PID, ev.TID, ev.Time, ev.Errno)
	if f := engine.FieldExe; ev.Task.Known.Has(f) {
		text += fmt.Sprintf(" %s", ev.Bytes(f))
	}
	e.got = append(e.got, text)
}

// The stages of a call identify a failed exec, whatever the order in which they are read.
func TestExecs(t *testing.T) {
	at := uint64(0)
	stage := func(tid uint32, family int, detail any) execStage {
		at++
		st := execStage{family: family, pid: 10, tid: tid, time: at}
		switch d := detail.(type) {
		case string:
			st.call = execCall{path: []byte(d), known: true}
		case int:
			st.result = int64(d)
		}
		return st
	}
	const begins, path, noReturn, ends = familyExecBegins, familyExecPath, familyExecNoReturn, familyExecEnds
	read := []execStage{
		stage(11, begins, nil), stage(12, familyExecAtBegins, nil), stage(12, path, "b"), stage(11, path, "a"),
		stage(11, ends, -2), stage(12, familyExecAtEnds, -13), // times 5 and 6
		// The path of the previous call is not reused.
		stage(11, begins, nil), stage(11, ends, -14), // time 8
		// The failed exec kills the process.
		stage(11, begins, nil), stage(11, path, "c"), stage(11, noReturn, nil), stage(11, ends, -12),
		stage(11, begins, nil), stage(11, path, "d"), stage(11, noReturn, nil), stage(11, ends, 0),
		// The record of the entry is missing.
		stage(11, ends, -2),
		// The kernel restarts the call.
		stage(11, begins, nil), stage(11, path, "e"), stage(11, ends, -513),
		// A 32-bit call preceded this call.
		stage(13, path, "f"), stage(13, begins, nil), stage(13, ends, -2), // time 23
	}
	want := []string{"10/11 at 5: 2 a", "10/12 at 6: 13 b", "10/11 at 8: 14", "10/13 at 23: 2"}
	slices.Reverse(read)
	s := &Source{execs: execs{read: read, calls: map[uint32]*execCall{}}}
	sink := &failedExecs{oneEventSink: oneEventSink{new(engine.RawEvent)}, room: 2}
	s.reportExecs(sink)
	if held := s.oldestHeld(); held != 7 {
		t.Errorf("got held time %d, want 7", held)
	}
	sink.room = 10
	s.reportExecs(sink)
	if !slices.Equal(sink.got, want) || len(s.execs.calls) != 0 || s.oldestHeld() != 0 {
		t.Errorf("got %s with %d calls left, want %q", strings.Join(sink.got, "\n"), len(s.execs.calls), want)
	}

	// No event is made from a call that may have lost a stage.
	sink.got = nil
	s.execs.read = []execStage{stage(11, begins, nil), stage(11, ends, -2), stage(11, begins, nil), stage(12, begins, nil), stage(12, ends, -2)}
	s.execs.markMissing(at)
	s.execs.markMissing(at - 2)
	s.reportExecs(sink)
	s.execs.read = []execStage{stage(11, ends, -2)}
	s.reportExecs(sink)
	if want := []string{"10/11 at 25: 2"}; !slices.Equal(sink.got, want) {
		t.Errorf("got %q, want %q", sink.got, want)
	}
	for tid := range uint32(2 * maxExecs) {
		s.execs.read = append(s.execs.read, stage(tid, begins, nil))
	}
	if s.reportExecs(sink); len(s.execs.calls) != maxExecs {
		t.Errorf("got %d calls, want %d", len(s.execs.calls), maxExecs)
	}
}
