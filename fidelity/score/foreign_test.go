package score

import (
	"slices"
	"strings"
	"testing"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
)

// late returns the output of a monitor without stamps for the same process. Each line is delay ns
// late and has only the real user id.
func late(delay uint64) *Delivered {
	w := perfect()
	w.Joined = nil
	w.Foreign = &Tolerance{NoStamps: true, Late: 1000, As: func(f engine.Field, v string) string {
		if f == engine.FieldUIDs {
			real, _, _ := strings.Cut(v, " ")
			return real + " " + real
		}
		return v
	}}
	for i := range w.Single {
		s := &w.Single[i]
		s.Time += delay
		s.At = s.Time
		s.Process.Cred.EUID = s.Process.Cred.UID
		if s.Process.Exited {
			s.Process.Task.Exit.Time = s.Time
		}
	}
	return w
}

func TestForeignWithoutStamps(t *testing.T) {
	w := late(300) // all lines come after the end
	s := Compute(w, processes(t, records()...))
	if !s.Perfect() || s.Seen != 5 || s.Stamp != (Counts{Unknown: 5}) || s.Fields[engine.FieldUIDs].Right != 5 {
		t.Errorf("got %s %+v %+v %q", s, s.Stamp, s.Fields[engine.FieldUIDs], s.Findings)
	}
	for _, d := range s.Delays {
		if d < 275 || d > 310 {
			t.Errorf("got delays %d, want them from the event to the line", s.Delays)
			break
		}
	}
	w.Foreign = nil
	if s := Compute(w, processes(t, records()...)); s.Perfect() {
		t.Error("got a perfect score for late lines of a quark backend")
	}
}

func TestForeignFaults(t *testing.T) {
	for _, c := range []struct {
		name   string
		break_ func(*Delivered)
		want   func(*Score) bool
	}{
		{"a name of before", func(w *Delivered) { w.Single[3].Process.Comm = "mid" },
			func(s *Score) bool { return s.Fields[engine.FieldComm].Stale == 1 && s.All().Wrong == 0 }},
		{"a name of later", func(w *Delivered) { w.Single[0].Process.Comm = "new" },
			func(s *Score) bool { return s.Fields[engine.FieldComm].Stale == 1 && s.All().Wrong == 0 }},
		{"a name of nobody", func(w *Delivered) { w.Single[3].Process.Comm = "else" },
			func(s *Score) bool { return s.Fields[engine.FieldComm].Wrong == 1 && s.All().Stale == 0 }},
		{"a beginning without a mark", func(w *Delivered) { w.Single[3].Process.Image.Args = []byte("new\x00a") },
			func(s *Score) bool { return s.Fields[engine.FieldArgs].Wrong == 1 }},
		{"a beginning with a mark", func(w *Delivered) {
			p := w.Single[3].Process
			p.Image.Args, p.Truncated = []byte("new\x00a"), engine.FieldArgs.Set()
		}, func(s *Score) bool { return s.Fields[engine.FieldArgs].Truncated == 1 && s.All().Wrong == 0 }},
		{"a line too few", func(w *Delivered) { w.Single = append(w.Single[:3:3], w.Single[4]) },
			func(s *Score) bool { return s.Seen == 4 && s.Truth == 5 }},
		{"a line twice", func(w *Delivered) { w.Single = append(w.Single, w.Single[4]) },
			func(s *Score) bool { return s.Duplicates == 1 }},
		{"an end before it", func(w *Delivered) { w.Single[4].Time, w.Single[4].Process.Task.Exit.Time = 175, 175 },
			func(s *Score) bool { return s.Stamp.Wrong == 1 && s.Fields[engine.FieldExit].Wrong == 1 }},
		{"another status", func(w *Delivered) { w.Single[4].Process.Task.Exit.WaitStatus = 0x400 },
			func(s *Score) bool { return s.Fields[engine.FieldExit].Wrong == 1 }},
		{"an end before the exec", func(w *Delivered) { w.Single[3], w.Single[4] = w.Single[4], w.Single[3] },
			func(s *Score) bool { return s.Inversions == 1 }},
		{"a fork after the end", func(w *Delivered) { w.Single = append(w.Single[1:], w.Single[0]) },
			func(s *Score) bool { return s.Seen == 5 && s.Inversions == 1 && s.Phantoms == 0 }},
		{"a child that never was", func(w *Delivered) {
			s := w.Single[0]
			s.Process = s.Process.Clone()
			s.Process.PID, s.Process.PPID = 10, 9
			w.Single = append(w.Single[:1:1], append([]Seen{s}, w.Single[1:]...)...)
		}, func(s *Score) bool { return s.Phantoms == 1 }},
	} {
		w := late(300)
		c.break_(w)
		if s := Compute(w, processes(t, records()...)); s.Perfect() || !c.want(s) {
			if c.name != "a beginning with a mark" || !c.want(s) {
				t.Errorf("%s: got %s, fields %+v, stamps %+v, %q", c.name, s, s.All(), s.Stamp, s.Findings)
			}
		}
	}
}

// A stamp of another clock is right within its error, and wrong beyond.
func TestForeignUnit(t *testing.T) {
	for _, c := range []struct{ early, right uint64 }{{5, 5}, {4, 4}} {
		w := perfect()
		w.Joined, w.Foreign = nil, &Tolerance{Early: c.early}
		for i := range w.Single {
			w.Single[i].Time -= 10 // 5 before the event
			if p := w.Single[i].Process; p.Exited {
				p.Task.Exit.Time = w.Single[i].Time
			}
		}
		w.Single[4].Time++
		if s := Compute(w, processes(t, records()...)); s.Stamp.Right != map[uint64]int{5: 5, 4: 1}[c.right] {
			t.Errorf("within %d: got %+v %q", c.early, s.Stamp, s.Findings)
		}
	}
}

// A monitor with only execs does not show where a process ends: its lines are assigned by number.
func TestForeignPIDAgain(t *testing.T) {
	again := records()
	for i := range again {
		again[i].Earliest += 100
		again[i].Latest += 100
	}
	w := late(300)
	for _, k := range []engine.Kind{engine.KindFork, engine.KindExit, engine.KindIDChange, engine.KindSetProcTitle} {
		w.Table.Kinds[k] = engine.Capability{}
	}
	exec := w.Single[3]
	w.Single = []Seen{exec, exec}
	w.Single[1].Time += 10
	if s := Compute(w, processes(t, append(records(), again...)...)); s.Seen != 2 || s.Truth != 2 || s.Duplicates+s.Phantoms != 0 {
		t.Errorf("got %s %q", s, s.Findings)
	}
}

// A backend with a coarse clock may be late by the clock error, and may omit what its table lists.
// Its values are scored like those of other backends: an earlier value is wrong.
func TestClock(t *testing.T) {
	delayed := func(by uint64) *Delivered {
		w := perfect()
		w.Joined, w.Clock = nil, &Tolerance{Late: 30}
		w.Table.Kinds[engine.KindIDChange].Omits = engine.OmitIDs
		for i := range w.Single {
			s := &w.Single[i]
			if s.Time += by; s.Process.Exited {
				s.Process.Task.Exit.Time = s.Time
			}
		}
		return w
	}
	if s := Compute(delayed(20), processes(t, records()...)); !s.Perfect() || s.Stamp.Right != 5 {
		t.Errorf("got %s %q", s, s.Findings)
	}
	if s := Compute(delayed(60), processes(t, records()...)); s.Stamp.Wrong == 0 {
		t.Errorf("later than the clock can be: got %s", s)
	}
	w := delayed(20)
	w.Single[3].Process.Comm = "mid"
	if s := Compute(w, processes(t, records()...)); s.Fields[engine.FieldComm].Wrong != 1 {
		t.Errorf("an earlier name: got %s", s)
	}
	w = delayed(20)
	for i := range w.Single {
		if w.Single[i].Events == engine.EventIDChange {
			w.Single = append(w.Single[:i:i], w.Single[i+1:]...)
			break
		}
	}
	if s := Compute(w, processes(t, records()...)); !s.Perfect() {
		t.Errorf("without a change of ids: got %s %q", s, s.Findings)
	}
	// One of two execs is lost. The stamp of the delivered one fits both of them.
	r := records()
	r = slices.Insert(r, 4, truth.Record{Op: truth.Exec, PID: 9, Earliest: 156, Latest: 158, Own: true})
	r[4].State.Set(engine.FieldComm, "first")
	if s := Compute(delayed(20), processes(t, r...)); s.All().Wrong != 0 || s.Truth-s.Seen != 1 {
		t.Errorf("one of two execs is delivered: got %s %q", s, s.Findings)
	}
	// The first of three is lost, and the last exec has the same values.
	r = slices.Insert(r, 4, truth.Record{Op: truth.Exec, PID: 9, Earliest: 152, Latest: 154, Own: true})
	r[4].State = r[6].State
	w = delayed(5)
	i := slices.IndexFunc(w.Single, func(s Seen) bool { return s.Events.Has(engine.EventExec) })
	first := w.Single[i]
	first.Process = first.Process.Clone()
	first.Process.Comm, first.Time = "first", first.Time-8
	w.Single = slices.Insert(w.Single, i, first)
	if s := Compute(w, processes(t, r...)); s.Inversions != 0 || s.Truth-s.Seen != 1 {
		t.Errorf("two of three execs are delivered: got %s %q", s, s.Findings)
	}
	// The end of the pid's previous process, by a signal, may be missing.
	w = delayed(15)
	w.Table.Kinds[engine.KindFork].Omits, w.Table.Kinds[engine.KindExit].Omits = engine.OmitAny, engine.OmitEnds
	w.Clock.Late, w.Single = 100, w.Single[1:] // and the birth
	r = []truth.Record{{Op: truth.Fork, PID: 9, Earliest: 100, Latest: 110, Parent: 3}, {Op: truth.Exit, PID: 9, Earliest: 111, Latest: 113, Status: 9}}
	for _, next := range records() {
		next.Earliest, next.Latest = next.Earliest+15, next.Latest+15
		r = append(r, next)
	}
	if s := Compute(w, processes(t, r...)); s.Phantoms != 0 || s.Truth != s.Seen || s.Fields[engine.FieldExit].Wrong != 0 {
		t.Errorf("a reused pid: got %s %q", s, s.Findings)
	}
	if f := Stamps(&engine.CapabilityTable{Stamps: engine.StampError{Late: 3}, SameIDs: true}); f == nil || f.Late != 3 || !f.Unchanged || Stamps(w.Table) != nil {
		t.Errorf("got %+v", f)
	}
}
