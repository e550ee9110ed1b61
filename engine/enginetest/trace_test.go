package enginetest_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/engine/enginetest"
	"github.com/quark-linux/quark/engine/trace"
	"github.com/quark-linux/quark/internal/golden"
)

// For a recorded trace of each backend and kernel series, the replayed events equal the golden
// file. The traces were recorded by
//
//	go test -run TestRecordLives . -record $PWD/engine/enginetest/testdata
//
// and in guests, which print the traces: -exec "build/amd64/quark-matrix exec --kernel 6.1-cloud"
// and -v -record -.
func TestTraces(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.trace")
	if len(files) < 3*6 { // backends, and kernel series including one of arm64
		t.Fatalf("got only the files %q", files)
	}
	for _, file := range files {
		for suffix, minAgg := range map[string]bool{".joined": false, ".apart": true} {
			t.Run(filepath.Base(file)+suffix, func(t *testing.T) {
				golden.Compare(t, strings.TrimSuffix(file, ".trace")+suffix, replay(t, file, minAgg))
			})
		}
	}
}

// census is an engine.Recorder that records which fields and read times a trace has.
type census struct {
	fields engine.Fields // known in any event
	reads  map[uint64]bool
}

func (c *census) Begin(engine.Source, *engine.Clock) {}
func (c *census) Read(at uint64)                     { c.reads[at] = true }
func (c *census) Record(r *engine.RawEvent)          { c.fields |= r.Task.Known }

// Each trace has all fields up to FieldLogin, and the times at which the source was read. Traces of
// the proc connector have processes that end before /proc is read.
func TestTracesAreWhole(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.trace")
	for _, file := range files {
		c := census{reads: make(map[uint64]bool)}
		each(t, enginetest.Trace(t, file), engine.Options{Record: &c}, func(*engine.Event) {})
		want := engine.AllFields & (1<<(engine.FieldLogin+1) - 1)
		if strings.Contains(file, "cnproc") {
			want = engine.SetOf(engine.FieldPPID, engine.FieldBirthParentTID, engine.FieldExit)
		}
		if missing := want &^ c.fields; missing != 0 || len(c.reads) < 2 {
			t.Errorf("%s: fields %s are missing, got %d read times", file, missing, len(c.reads))
		}
	}
}

// Recording a replay reproduces the trace, including the times at which the source was read, for
// any size of the engine's buffer. Events that are further apart than the hold time do not join.
func TestRecordAgain(t *testing.T) {
	m := enginetest.NewMachine()
	sh := m.Running("/bin/sh")
	for range 20 {
		p := sh.Fork().Exec("/bin/sleep", "0.1")
		m.Sleep(100 * time.Millisecond)
		p.Exit(0)
	}
	_, first := recordAgain(t, m, engine.Options{})
	for length, want := range map[int]int{1: 60, 2: 40, 100: 40} {
		r, err := trace.NewReader(bytes.NewReader(first))
		if err != nil {
			t.Fatal(err)
		}
		events, again := recordAgain(t, r, engine.Options{MaxLength: length, HoldTime: 10 * time.Millisecond})
		if same := bytes.Equal(again, first); events != want || !same || r.Torn() != nil {
			t.Errorf("length %d: got %d events, want %d; same trace: %v, truncated: %v", length, events, want, same, r.Torn())
		}
	}
}

// recordAgain records the events of src, and returns their number and the encoded trace.
func recordAgain(t *testing.T, src source, opts engine.Options) (events int, recording []byte) {
	var b bytes.Buffer
	w, err := trace.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	opts.Record = w
	each(t, src, opts, func(*engine.Event) { events++ })
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return events, b.Bytes()
}

// replay returns the events of a trace as text. With minAgg, each event has only one short line.
func replay(t *testing.T, file string, minAgg bool) (text []byte) {
	each(t, enginetest.Trace(t, file), engine.Options{MinAgg: minAgg}, func(ev *engine.Event) {
		if minAgg {
			text = fmt.Appendf(text, "%d %d %s\n", ev.Time, ev.Process.PID, ev.Events)
		} else {
			text = ev.AppendDump(text)
		}
	})
	return text
}

// source has events, a clock and the processes of the start.
type source interface {
	engine.Source
	engine.Timekeeper
	engine.Scanner
}

// each calls f with each event of a source, up to its end.
func each(t *testing.T, src source, opts engine.Options, f func(*engine.Event)) {
	e, err := engine.New(src, src.Clock(), opts)
	if err != nil {
		t.Fatal(err)
	}
	learn := func(r *engine.RawEvent) error { e.Learn(r); return nil }
	if err := src.Scan(learn); err != nil {
		t.Fatal(err)
	}
	for idle := 0; !e.Drained(); {
		ev, err := e.Get()
		switch {
		case err == nil:
			f(ev)
		case !errors.Is(err, engine.ErrNothing) || idle > 10000:
			t.Fatalf("the source did not end: %v", err)
		default:
			idle++
			src.Arm(true)
		}
	}
}

// A replay, and a recording of the replay, have the host of the original recording.
func TestHost(t *testing.T) {
	m := enginetest.NewMachine()
	host := engine.Host{Name: "a", MachineID: "b", BootID: "c", Arch: "d"}
	clock := m.Clock()
	for range 2 {
		var b bytes.Buffer
		w, err := trace.NewWriter(&b)
		if err != nil {
			t.Fatal(err)
		}
		clock.Host = host
		w.Begin(m, clock)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		r, err := trace.NewReader(&b)
		if err != nil {
			t.Fatal(err)
		}
		clock = r.Clock()
		if host.Kernel = r.Kernel(); clock.Host != host {
			t.Errorf("got host %+v, want %+v", clock.Host, host)
		}
	}
}
