//go:build linux

package procpoll

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine"
)

// tree is a /proc for tests.
type tree fstest.MapFS

func (t tree) file(name, format string, args ...any) {
	t[name] = &fstest.MapFile{Data: fmt.Appendf(nil, format, args...)}
}

// made sets the number of tasks that the kernel has created.
func (t tree) made(n int) { t.file("stat", "cpu  1 2\nprocesses %d\nprocs_running 1\n", n) }

// put adds a process, with PF_FORKNOEXEC until it has executed.
func (t tree) put(pid, ticks, threads int, comm string, executed bool) {
	flags := 0x40
	if executed {
		flags = 0
	}
	t.file(fmt.Sprintf("%d/stat", pid), "%d (%s) S 1 %d 1 34816 -1 %d 1 2 3 4 5 6 7 8 20 0 %d 0 %d 9 9 9\n", pid, comm, pid, flags, threads, ticks)
}

func open(t *testing.T, proc tree) *Source {
	t.Helper()
	s, err := Open(fstest.MapFS(proc), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// readings is a sink with limited room.
type readings struct {
	room   int
	events []string
	raw    []engine.RawEvent
}

func (r *readings) Room() int                 { return r.room }
func (r *readings) Reserve() *engine.RawEvent { return new(engine.RawEvent) }
func (r *readings) Release(*engine.RawEvent)  {}

func (r *readings) Insert(ev *engine.RawEvent) {
	r.room--
	r.raw = append(r.raw, *ev)
	if ev.Kind == engine.KindGap {
		r.events = append(r.events, fmt.Sprintf("GAP %d", ev.Gap.Count))
		return
	}
	r.events = append(r.events, fmt.Sprintf("%s %d %s", ev.Kind, ev.PID, ev.Bytes(engine.FieldComm)))
}

// read returns the events of one call of Populate.
func read(t *testing.T, s *Source, room int) *readings {
	t.Helper()
	to := &readings{room: room}
	if err := s.Populate(to); err != nil {
		t.Fatal(err)
	}
	return to
}

func want(t *testing.T, got *readings, events ...string) {
	t.Helper()
	if !slices.Equal(got.events, events) {
		t.Errorf("reported %q, want %q", got.events, events)
	}
}

func TestReadings(t *testing.T) {
	proc := make(tree)
	proc.made(100)
	proc.put(1, 0, 1, "init", true)
	s := open(t, proc)
	want(t, read(t, s, 9))

	proc.made(103)
	proc.put(7, 500, 2, "odd) name (", false)
	proc.put(6, 501, 1, "child", true)
	want(t, read(t, s, 9), "FORK 7 odd) name (", "FORK 6 child", "EXEC 6 child")

	proc.put(7, 500, 2, "sh", true) // it executes
	want(t, read(t, s, 9), "EXEC 7 sh")
	proc.put(7, 500, 2, "dash", true) // another exec or another name cannot be distinguished
	want(t, read(t, s, 9))

	proc.made(105) // another process has the pid, and one came and went
	proc.put(7, 502, 1, "next", false)
	got := read(t, s, 9)
	want(t, got, "EXIT 7 dash", "FORK 7 next", "GAP 1")
	fork, gap := &got.raw[1], &got.raw[2]
	if fork.Task.Start != 502*engine.ProcStartUnit || fork.Task.Cached != fields&^engine.FieldStart.Set() || fork.Task.PGID != 7 {
		t.Errorf("got FORK %+v", fork.Task)
	}
	if gap.Time != gap.Gap.From || gap.Gap.From >= fork.Time || gap.Gap.To != fork.Time {
		t.Errorf("got gap %+v, FORK at %d", gap.Gap, fork.Time)
	}

	delete(proc, "7/stat")
	want(t, read(t, s, 9), "EXIT 7 next")
	if st, err := s.Stats(); err != nil || st.Produced != 8 || st.LostTotal() != 1 {
		t.Errorf("got stats %+v, error %v", st, err)
	}
}

// An event without room is reported by a later read, once, and is not lost.
func TestFullSink(t *testing.T) {
	proc := make(tree)
	proc.made(10)
	proc.put(2, 1, 1, "old", true)
	s := open(t, proc)
	delete(proc, "2/stat")
	proc.put(3, 5, 1, "a", true)
	proc.put(4, 6, 1, "b", true)
	proc.made(13) // one was missed
	var all []string
	for range 12 {
		all = append(all, read(t, s, 1).events...)
	}
	want(t, &readings{events: all}, "EXIT 2 old", "FORK 3 a", "EXEC 3 a", "FORK 4 b", "EXEC 4 b", "GAP 1")
}

// A read error is returned: the processes may still exist.
func TestErrors(t *testing.T) {
	proc := make(tree)
	if _, err := Open(fstest.MapFS(proc), 0); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without the number of tasks: %v", err)
	}
	proc.made(10)
	proc.put(2, 1, 1, "a", true)
	s := open(t, proc)
	for _, bad := range []string{"", "2", "2 (a S 1", "2 (a) S 1 2", ") 2 (a"} {
		proc.file("2/stat", "%s", bad)
		if to := new(readings); s.Populate(&readings{room: 9}) == nil || len(to.events) != 0 {
			t.Errorf("%q: got no error", bad)
		}
	}
	s.Close()
	if err := s.Populate(&readings{room: 9}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// The reported fields match the capability table.
func TestCapabilities(t *testing.T) {
	proc := make(tree)
	proc.made(10)
	table := open(t, proc).Capabilities()
	for f := range engine.Field(engine.NumFields) {
		if known := table.Fields[f].Origin != engine.OriginNone; known != fields.Has(f) || table.Fields[f].Via == "" {
			t.Errorf("%s: got %+v", f, table.Fields[f])
		}
	}
}

// A child of this test, on this machine: existing processes are known, and no privilege is needed.
func TestHost(t *testing.T) {
	src, err := Open(os.DirFS("/proc"), time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	q, err := quark.New(src, quark.Options{HoldTime: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	comm, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	if p := q.Lookup(uint32(os.Getpid())); p == nil || p.Comm != strings.TrimSpace(string(comm)) || p.PPID != uint32(os.Getppid()) {
		t.Errorf("got own process %+v", p)
	}
	child := exec.Command("cat")
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var seen quark.Events
	for ev, err := range q.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if ev.Process.PID != uint32(child.Process.Pid) || ev.Events.Has(quark.EventGap) {
			continue
		}
		if seen |= ev.Events; seen.Has(quark.EventExit) {
			break
		}
		if seen.Has(quark.EventExec) {
			if ev.Process.Comm != "cat" || ev.Process.PPID != uint32(os.Getpid()) {
				t.Errorf("got child %+v", ev.Process)
			}
			in.Close()
			if err := child.Wait(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if want := quark.EventFork | quark.EventExec | quark.EventExit; seen != want {
		t.Errorf("seen %s, want %s", seen, want)
	}
}
