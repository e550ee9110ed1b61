package score

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
)

// records returns the records of a process: a fork, two changes, an exec and an end.
func records() []truth.Record {
	tell := func(pairs ...any) (s truth.State) {
		for i := 0; i < len(pairs); i += 2 {
			s.Set(pairs[i].(engine.Field), pairs[i+1].(string))
		}
		return s
	}
	return []truth.Record{
		{Op: truth.Fork, PID: 9, Earliest: 100, Latest: 110, Parent: 3, State: tell(engine.FieldUIDs, "0 0", engine.FieldComm, "old", engine.FieldCwd, "/a/b")},
		{Op: truth.IDs, PID: 9, Earliest: 120, Latest: 130, Own: true, ID: engine.ChangedUID, State: tell(engine.FieldUIDs, "5 6")},
		{Op: truth.Comm, PID: 9, Earliest: 140, Latest: 150, Own: true, State: tell(engine.FieldComm, "mid")},
		{Op: truth.Now, PID: 9, Latest: 155, Own: true, State: tell(engine.FieldCwd, "/c/d")},
		{Op: truth.Exec, PID: 9, Earliest: 160, Latest: 170, Own: true, State: tell(engine.FieldComm, "new", engine.FieldArgs, "new\x00arg\x00")},
		{Op: truth.Exit, PID: 9, Earliest: 180, Latest: 190, Status: 0x300},
	}
}

// optionalIDs makes the change of ids optional and adds another one after the exec.
func optionalIDs(r []truth.Record) []truth.Record {
	r[1].Optional = true
	return append(r, truth.Record{Op: truth.IDs, ID: engine.ChangedUID, PID: 9, Earliest: 172, Latest: 175, Optional: true, Unchanged: true})
}

func processes(t *testing.T, records ...truth.Record) []*truth.Process {
	t.Helper()
	l, err := truth.Assemble(records)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

var all = engine.EventFork | engine.EventExec | engine.EventExit | engine.EventIDChange | engine.EventSetProcTitle

// perfect returns the events of a perfect backend.
func perfect() *Delivered {
	w := &Delivered{Backend: "x", Table: new(engine.CapabilityTable), Hold: 1000, Opened: 1}
	for k := range w.Table.Kinds {
		w.Table.Kinds[k] = engine.Capability{Origin: engine.OriginKernel, At: engine.Kind(k).Events()}
	}
	for f := range w.Table.Fields {
		w.Table.Fields[f] = engine.Capability{Origin: engine.OriginKernel, At: all}
	}
	w.Table.Fields[engine.FieldCwd].At = engine.EventFork | engine.EventExec
	w.Table.Fields[engine.FieldArgs].At = engine.EventExec
	w.Table.Fields[engine.FieldExit].At = engine.EventExit
	known := engine.Fields(1<<engine.FieldUIDs | 1<<engine.FieldComm | 1<<engine.FieldPPID | 1<<engine.FieldStart | 1<<engine.FieldCwd)
	p := engine.Process{PID: 9, Comm: "old", Cwd: "/a/b"}
	p.Known, p.PPID, p.Start, p.StartUnit = known, 3, 105, 1
	add := func(time uint64, e engine.Events, change func(*engine.Process, *Seen)) {
		s := Seen{Events: e, Time: time, At: time + w.Hold + 7}
		change(&p, &s)
		s.Process = p.Clone()
		for k := range engine.Kind(engine.NumKinds) {
			if k.Events() == e {
				s.Parts = []engine.Part{{Kind: k, IDChange: s.ID, Time: time}}
			}
		}
		w.Single = append(w.Single, s)
	}
	add(105, engine.EventFork, func(*engine.Process, *Seen) {})
	add(125, engine.EventIDChange, func(p *engine.Process, s *Seen) { p.Cred.UID, p.Cred.EUID, s.ID = 5, 6, engine.ChangedUID })
	add(145, engine.EventSetProcTitle, func(p *engine.Process, _ *Seen) { p.Comm = "mid" })
	add(165, engine.EventExec, func(p *engine.Process, _ *Seen) {
		p.Comm, p.Cwd, p.Image.Args = "new", "/c/d", []byte("new\x00arg\x00")
		p.Cred.SUID = 6
		p.Known = p.Known.With(engine.FieldArgs).With(engine.FieldSUID)
	})
	add(185, engine.EventExit, func(p *engine.Process, _ *Seen) {
		p.Exited, p.Task.Exit = true, engine.Exit{WaitStatus: 0x300, Time: 185}
		p.Known = p.Known.With(engine.FieldExit)
	})
	// FORK joins the changes, but no exec after a change of ids.
	for _, own := range [][]Seen{w.Single[:3], w.Single[3:]} {
		joined := own[0]
		for _, s := range own[1:] {
			joined.Events |= s.Events
			joined.Parts = append(slices.Clone(joined.Parts), s.Parts...)
			joined.Process = s.Process.Clone()
		}
		w.Joined = append(w.Joined, joined)
	}
	return w
}

func TestPerfect(t *testing.T) {
	s := Compute(perfect(), processes(t, records()...))
	if !s.Perfect() {
		t.Errorf("not perfect: got %+v", s)
	}
	if s.Truth != 5 || s.Seen != 5 || s.Joined != 1 || s.Stamp.Right != 5 {
		t.Errorf("got score %+v", s)
	}
	// start, ppid, uids, comm and cwd each time; cmdline and suid twice; exit once.
	want := Counts{Right: 30}
	if got := s.All(); got != want {
		t.Errorf("got fields %+v, want %+v; findings %v", got, want, s.Findings)
	}
	if len(s.Delays) != 5 || s.Delays[0] != 7 {
		t.Errorf("got delays %v", s.Delays)
	}
}

// TestDefects checks that each kind of defect changes exactly the documented figures.
func TestDefects(t *testing.T) {
	with := func(change func(*Score)) *Score {
		s := Compute(perfect(), processes(t, records()...))
		change(s)
		return s
	}
	field := func(f engine.Field, v Counts) func(*Score) {
		return func(s *Score) {
			s.Fields[f].Right -= v.Total()
			s.Fields[f].Add(v)
		}
	}
	seen := func(w *Delivered, i int) *engine.Process { return w.Single[i].Process }
	for _, c := range []struct {
		name    string
		damage  func(*Delivered)
		records func([]truth.Record) []truth.Record
		want    func(*Score)
		fine    bool // explained by the table
	}{
		{name: "an exit is missing", damage: func(w *Delivered) { w.Single = w.Single[:4] }, want: func(s *Score) {
			s.Seen--
			s.Stamp.Right--
			for f, right := range map[engine.Field]int{engine.FieldStart: 1, engine.FieldPPID: 1, engine.FieldUIDs: 1, engine.FieldComm: 1,
				engine.FieldCwd: 1, engine.FieldArgs: 1, engine.FieldSUID: 1, engine.FieldExit: 1} {
				s.Fields[f].Right -= right
			}
		}},
		{name: "an exec twice", damage: func(w *Delivered) { w.Single = slices.Insert(w.Single, 4, w.Single[3]) },
			want: func(s *Score) { s.Duplicates++ }},
		{name: "a core that was not dumped", damage: func(w *Delivered) {
			extra := w.Single[3]
			extra.Events, extra.Parts = engine.EventCoreDump, nil
			w.Single = slices.Insert(w.Single, 4, extra)
		}, want: func(s *Score) { s.Phantoms++ }},
		{name: "a process that was not forked", damage: func(w *Delivered) {
			extra := w.Single[0]
			extra.Process = &engine.Process{PID: 77}
			extra.Process.Known, extra.Process.PPID = engine.FieldPPID.Set(), 9
			extra.Time = 150
			w.Single = slices.Insert(w.Single, 3, extra)
		}, want: func(s *Score) { s.Phantoms++ }},
		{name: "a change after the end", damage: func(w *Delivered) {
			extra := w.Single[2]
			extra.Time = 195
			w.Single = append(w.Single, extra)
		}, want: func(s *Score) { s.Phantoms++ }},
		{name: "a process of somebody else", damage: func(w *Delivered) {
			w.Single = append(w.Single, Seen{Events: engine.EventFork, Time: 150, Process: &engine.Process{PID: 78}})
		}, want: func(*Score) {}, fine: true},
		{name: "more ids than changed", damage: func(w *Delivered) { w.Single[1].ID |= engine.ChangedGID },
			want: func(s *Score) { s.Phantoms++ }},
		{name: "in the wrong order", damage: func(w *Delivered) { w.Single[2], w.Single[3] = w.Single[3], w.Single[2] },
			want: func(s *Score) { s.Inversions++ }},
		{name: "a wrong stamp", damage: func(w *Delivered) { w.Single[3].Time = 175 }, want: func(s *Score) {
			s.Stamp.Right--
			s.Stamp.Wrong++
		}},
		{name: "an end after the parent saw it", damage: func(w *Delivered) { w.Single[4].Time = 192 }, want: func(s *Score) {
			s.Phantoms++
			s.Seen--
			s.Stamp.Right--
			for _, f := range []engine.Field{engine.FieldStart, engine.FieldPPID, engine.FieldUIDs, engine.FieldComm, engine.FieldCwd,
				engine.FieldArgs, engine.FieldSUID, engine.FieldExit} {
				s.Fields[f].Right--
			}
		}},
		{name: "an end after the parent saw it, within AfterEnd", damage: func(w *Delivered) {
			w.AfterEnd = 5
			w.Single[4].Time = 192
		}, want: func(*Score) {}, fine: true},
		{name: "a wrong parent", damage: func(w *Delivered) { seen(w, 0).PPID = 4 }, want: field(engine.FieldPPID, Counts{Wrong: 1})},
		{name: "ids of before", damage: func(w *Delivered) { seen(w, 1).Cred = engine.Credentials{} }, want: field(engine.FieldUIDs, Counts{Wrong: 1})},
		{name: "the comm of later", damage: func(w *Delivered) { seen(w, 0).Comm = "mid" }, want: field(engine.FieldComm, Counts{Wrong: 1})},
		{name: "unknown without a reason", damage: func(w *Delivered) { seen(w, 3).Known &^= engine.FieldComm.Set() },
			want: field(engine.FieldComm, Counts{Unexplained: 1})},
		{name: "unknown as the event does not bring it", damage: func(w *Delivered) { seen(w, 4).Known &^= engine.FieldArgs.Set() },
			want: field(engine.FieldArgs, Counts{Unknown: 1}), fine: true},
		{name: "unknown as it comes from /proc", damage: func(w *Delivered) {
			w.Table.Fields[engine.FieldComm].Origin = engine.OriginProc
			seen(w, 3).Known &^= engine.FieldComm.Set()
		}, want: field(engine.FieldComm, Counts{Unknown: 1}), fine: true},
		{name: "unknown as the table says it can be", damage: func(w *Delivered) {
			w.Table.Fields[engine.FieldExit].Partial = engine.EventExit
			seen(w, 4).Known &^= engine.FieldExit.Set()
		}, want: field(engine.FieldExit, Counts{Unknown: 1}), fine: true},
		{name: "of before, cached", damage: func(w *Delivered) { seen(w, 4).Cwd, seen(w, 4).Cached = "/a/b", engine.FieldCwd.Set() },
			want: field(engine.FieldCwd, Counts{Cached: 1}), fine: true},
		{name: "of before, not cached", damage: func(w *Delivered) { seen(w, 4).Cwd = "/a/b" },
			want: field(engine.FieldCwd, Counts{Wrong: 1})},
		{name: "of before, another field is cached", damage: func(w *Delivered) { seen(w, 4).Cwd, seen(w, 4).Cached = "/a/b", engine.FieldPPID.Set() },
			want: func(s *Score) {
				field(engine.FieldCwd, Counts{Wrong: 1})(s)
				s.Fields[engine.FieldPPID].Missed = 1
			}},
		{name: "of no time, cached", damage: func(w *Delivered) { seen(w, 4).Cwd, seen(w, 4).Cached = "/e", engine.FieldCwd.Set() },
			want: field(engine.FieldCwd, Counts{Wrong: 1})},
		{name: "right and cached", damage: func(w *Delivered) { seen(w, 4).Cached = engine.FieldCwd.Set() },
			want: func(*Score) {}, fine: true},
		{name: "of before, cut and cached", damage: func(w *Delivered) {
			w.Table.Fields[engine.FieldCwd].Whole = engine.Extent{Bytes: 100, Names: 1}
			seen(w, 4).Cwd, seen(w, 4).Truncated, seen(w, 4).Cached = "b", engine.FieldCwd.Set(), engine.FieldCwd.Set()
		}, want: field(engine.FieldCwd, Counts{Cached: 1}), fine: true},
		{name: "of before, cached where the event may leave it out", damage: func(w *Delivered) {
			w.Table.Fields[engine.FieldCwd].Partial = engine.EventExec
			seen(w, 3).Cwd, seen(w, 3).Cached = "/a/b", engine.FieldCwd.Set()
		}, want: field(engine.FieldCwd, Counts{Cached: 1, Missed: 1}), fine: true},
		{name: "right and cached where the event may leave it out", damage: func(w *Delivered) {
			w.Table.Fields[engine.FieldCwd].Partial = engine.EventExec
			seen(w, 3).Cached = engine.FieldCwd.Set()
		}, want: func(s *Score) { s.Fields[engine.FieldCwd].Missed = 1 }, fine: true},
		{name: "cached where the event always brings it", damage: func(w *Delivered) {
			seen(w, 3).Cached = engine.FieldCwd.Set()
		}, want: field(engine.FieldCwd, Counts{Unexplained: 1, Missed: 1})},
		{name: "an end whose ids are cached where it always brings them", damage: func(w *Delivered) {
			seen(w, 4).Cached = engine.FieldUIDs.Set()
		}, want: field(engine.FieldUIDs, Counts{Unexplained: 1, Missed: 1})},
		{name: "a change of ids whose comm is cached", damage: func(w *Delivered) {
			seen(w, 1).Cached = engine.FieldComm.Set()
		}, want: func(s *Score) { s.Fields[engine.FieldComm].Missed = 1 }, fine: true},
		{name: "of later, from the kernel", damage: func(w *Delivered) { seen(w, 0).Cwd = "/c/d" },
			want: field(engine.FieldCwd, Counts{Wrong: 1})},
		{name: "of later, from /proc", damage: func(w *Delivered) {
			w.Table.Fields[engine.FieldCwd].Origin = engine.OriginProc
			seen(w, 0).Cwd, seen(w, 0).Cached = "/c/d", engine.FieldCwd.Set()
		}, want: field(engine.FieldCwd, Counts{Cached: 1}), fine: true},
		{name: "of later, from /proc, not cached", damage: func(w *Delivered) {
			w.Table.Fields[engine.FieldCwd].Origin = engine.OriginProc
			seen(w, 0).Cwd = "/c/d"
		}, want: field(engine.FieldCwd, Counts{Wrong: 1})},
		{name: "of later, from the kernel, cached", damage: func(w *Delivered) {
			seen(w, 0).Cwd, seen(w, 0).Cached = "/c/d", engine.FieldCwd.Set()
		}, want: field(engine.FieldCwd, Counts{Wrong: 1})},
		{name: "cut and flagged", damage: func(w *Delivered) {
			w.Table.Fields[engine.FieldArgs].Whole.Bytes = 5
			seen(w, 3).Image.Args = []byte("new\x00a")
			seen(w, 3).Truncated = engine.FieldArgs.Set()
		}, want: field(engine.FieldArgs, Counts{Truncated: 1}), fine: true},
		{name: "a path cut and flagged", damage: func(w *Delivered) {
			w.Table.Fields[engine.FieldCwd].Whole = engine.Extent{Bytes: 100, Names: 1}
			seen(w, 3).Cwd, seen(w, 3).Truncated = "d", engine.FieldCwd.Set()
		}, want: field(engine.FieldCwd, Counts{Truncated: 1}), fine: true},
		{name: "cut to less than the table says", damage: func(w *Delivered) {
			w.Table.Fields[engine.FieldArgs].Whole.Bytes = 6
			seen(w, 3).Image.Args = []byte("new\x00a")
			seen(w, 3).Truncated = engine.FieldArgs.Set()
		}, want: field(engine.FieldArgs, Counts{Wrong: 1})},
		{name: "a path cut to less than the table says", damage: func(w *Delivered) {
			w.Table.Fields[engine.FieldCwd].Whole = engine.Extent{Bytes: 100, Names: 2}
			seen(w, 3).Cwd, seen(w, 3).Truncated = "d", engine.FieldCwd.Set()
		}, want: field(engine.FieldCwd, Counts{Wrong: 1})},
		{name: "cut where the table says that nothing is", damage: func(w *Delivered) {
			seen(w, 3).Image.Args = []byte("new\x00a")
			seen(w, 3).Truncated = engine.FieldArgs.Set()
		}, want: field(engine.FieldArgs, Counts{Wrong: 1})},
		{name: "cut and not flagged", damage: func(w *Delivered) { seen(w, 3).Image.Args = []byte("new\x00a") },
			want: field(engine.FieldArgs, Counts{Wrong: 1})},
		{name: "flagged and not a part", damage: func(w *Delivered) {
			w.Table.Fields[engine.FieldCwd].Whole = engine.Extent{Bytes: 100, Names: 1}
			seen(w, 3).Cwd = "e"
			seen(w, 3).Truncated = engine.FieldCwd.Set()
		}, want: field(engine.FieldCwd, Counts{Wrong: 1})},
		{name: "a wrong start", damage: func(w *Delivered) { seen(w, 2).Start = 111 }, want: field(engine.FieldStart, Counts{Wrong: 1})},
		{name: "a wrong status", damage: func(w *Delivered) { seen(w, 4).Task.Exit.WaitStatus = 0 }, want: field(engine.FieldExit, Counts{Wrong: 1})},
		{name: "a wrong time of the end", damage: func(w *Delivered) { seen(w, 4).Task.Exit.Time = 179 }, want: field(engine.FieldExit, Counts{Wrong: 1})},
		{name: "not marked as ended", damage: func(w *Delivered) { seen(w, 4).Exited = false }, want: field(engine.FieldExit, Counts{Wrong: 1})},
		{name: "not joined", damage: func(w *Delivered) { w.Joined = perfect().Single }, want: func(s *Score) {
			s.Joined--
			s.Unjoined++
		}},
		{name: "joined too much", damage: func(w *Delivered) {
			w.Joined[0].Events, w.Joined[0].Process = all, w.Joined[1].Process
			w.Joined[0].Parts = append(w.Joined[0].Parts, w.Joined[1].Parts...)
			w.Joined = w.Joined[:1]
		}, want: func(s *Score) {
			s.Joined--
			s.Unjoined++
		}},
		{name: "too slow to be joined", damage: func(w *Delivered) { w.Hold = 100 }, want: func(s *Score) {
			s.Joined--
			s.Slow++
		}, fine: true},
		{name: "not reported by the table", damage: func(w *Delivered) {
			w.Table.Kinds[engine.KindSetProcTitle].Origin = engine.OriginNone
			w.Single = slices.Delete(w.Single, 2, 3)
			w.Joined[0].Parts, w.Joined[0].Events = w.Joined[0].Parts[:2], w.Joined[0].Events&^engine.EventSetProcTitle
			w.Joined[0].Process.Comm = "old"
		}, want: func(s *Score) {
			s.Truth, s.Seen = s.Truth-1, s.Seen-1
			s.Stamp.Right--
			for _, f := range []engine.Field{engine.FieldStart, engine.FieldPPID, engine.FieldUIDs, engine.FieldComm, engine.FieldCwd} {
				s.Fields[f].Right--
			}
		}, fine: true},
		{name: "optional and not seen", damage: func(*Delivered) {}, records: func(r []truth.Record) []truth.Record {
			return append(r, truth.Record{Op: truth.Core, PID: 9, Earliest: 172, Latest: 175, Optional: true})
		}, want: func(*Score) {}, fine: true},
		{name: "optional, at the same time as one that is seen", damage: func(*Delivered) {}, records: func(r []truth.Record) []truth.Record {
			return append(r, truth.Record{Op: truth.Exec, PID: 9, Earliest: 160, Latest: 169, Optional: true})
		}, want: func(*Score) {}, fine: true},
		{name: "optional changes separate what would be joined", damage: func(w *Delivered) {
			w.Joined = append(w.Joined[:1], w.Single[3:]...)
		}, records: optionalIDs, want: func(*Score) {}, fine: true},
		{name: "not joined, where no optional change is between", damage: func(w *Delivered) {
			w.Joined = slices.Insert(w.Joined[1:], 0, w.Single[:3]...)
		}, records: optionalIDs, want: func(s *Score) {
			s.Joined--
			s.Unjoined++
		}},
		{name: "of later, from /proc, where an end left the change open", damage: func(w *Delivered) {
			w.Table.Fields[engine.FieldCwd].Origin = engine.OriginProc
			seen(w, 0).Cwd, seen(w, 0).Cached = "/x", engine.FieldCwd.Set()
		}, records: func(r []truth.Record) []truth.Record {
			return append(r, truth.Record{Op: truth.Now, PID: 9, Latest: 171, Open: engine.FieldCwd.Set()})
		}, want: func(s *Score) {
			s.Fields[engine.FieldCwd].Right -= 2 // of the fork and of the end
		}, fine: true},
		{name: "of before, from /proc, where the last exec does not tell", damage: func(w *Delivered) {
			w.Table.Fields[engine.FieldArgs].Origin = engine.OriginProc
			seen(w, 4).Cached = engine.FieldArgs.Set()
			w.Joined[1].Process = seen(w, 4).Clone()
		}, records: func(r []truth.Record) []truth.Record {
			r[4].State.Forget(engine.FieldArgs.Set())
			now := truth.Record{Op: truth.Now, PID: 9, Latest: 175, Open: engine.FieldArgs.Set()}
			now.State.Set(engine.FieldArgs, "other")
			return append(r, now)
		}, want: func(s *Score) {
			s.Fields[engine.FieldArgs].Right -= 2 // of the exec and of the end
		}, fine: true},
		{name: "unknown after an exec, before an optional change", damage: func(w *Delivered) {
			w.Table.Fields[engine.FieldUIDs] = engine.Capability{Origin: engine.OriginProc, At: engine.EventIDChange}
			w.Joined = append(w.Joined[:1], w.Single[3:]...)
			w.Joined[1].Process = seen(w, 3).Clone()
			w.Joined[1].Process.Known &^= engine.FieldUIDs.Set()
		}, records: func(r []truth.Record) []truth.Record {
			return append(optionalIDs(r), truth.Record{Op: truth.Read, PID: 9, Latest: 176})
		}, want: func(*Score) {}, fine: true},
		{name: "an image unknown that comes from /proc, right before the next", damage: func(w *Delivered) {
			w.Table.Fields[engine.FieldComm].Origin = engine.OriginProc
			w.Table.Fields[engine.FieldComm].At = engine.EventExec
			w.Single = slices.Insert(w.Single, 3, w.Single[3])
			w.Single[3].Time, w.Single[3].Process = 159, w.Single[3].Process.Clone()
			seen(w, 3).Known &^= engine.FieldComm.Set()
			w.Joined = nil
		}, records: func(r []truth.Record) []truth.Record {
			return append(r, truth.Record{Op: truth.Exec, PID: 9, Earliest: 156, Latest: 159, Own: true, State: r[4].State},
				truth.Record{Op: truth.Read, PID: 9, Latest: 159})
		}, want: func(s *Score) {
			s.Truth, s.Seen, s.Joined = s.Truth+1, s.Seen+1, 0
			s.Stamp.Right++
			for _, f := range []engine.Field{engine.FieldStart, engine.FieldPPID, engine.FieldUIDs, engine.FieldCwd, engine.FieldArgs, engine.FieldSUID} {
				s.Fields[f].Right++
			}
			s.Fields[engine.FieldComm].Unknown++
		}, fine: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, r := perfect(), records()
			c.damage(w)
			if c.records != nil {
				r = c.records(r)
			}
			got, want := Compute(w, processes(t, r...)), with(c.want)
			got.Delays, want.Delays = nil, nil
			findings := got.Findings
			got.Findings = nil
			if !equal(got, want) {
				t.Errorf("got score\n%+v, want\n%+v\n%s", got, want, strings.Join(findings, "\n"))
			}
			if got.Perfect() != c.fine {
				t.Errorf("got perfect %v", got.Perfect())
			}
			if !c.fine && len(findings) == 0 {
				t.Error("got no finding for a defect")
			}
		})
	}
}

// A child may have its parent's image from before the birth as a cached value, but no other fields
// of the parent.
func TestCachedFromTheParent(t *testing.T) {
	exec := func(name string) (s truth.State) {
		s.Set(engine.FieldExe, name)
		return s
	}
	state := func(name, session string) (s truth.State) {
		s = exec(name)
		s.Set(engine.FieldSID, session)
		return s
	}
	family := processes(t,
		truth.Record{Op: truth.Fork, PID: 8, Earliest: 10, Latest: 20, State: state("/old", "1")},
		truth.Record{Op: truth.IDs, ID: engine.ChangedSID, PID: 8, Own: true, Earliest: 30, Latest: 40, State: state("/new", "8")},
		truth.Record{Op: truth.Fork, PID: 9, Creator: 8, Earliest: 50, Latest: 60},
		truth.Record{Op: truth.Exec, PID: 8, Own: true, Earliest: 70, Latest: 80, State: exec("/late")},
		truth.Record{Op: truth.Exit, PID: 9, Earliest: 90, Latest: 95},
		truth.Record{Op: truth.Exit, PID: 8, Earliest: 96, Latest: 99})
	was := exec("/first")
	family[0].Was = &was
	for _, c := range []struct {
		name, filename string
		session        uint32
		cached         engine.Fields
		filenames      Counts
		sessions       Counts
	}{
		{"as at birth", "/new", 8, 0, Counts{Right: 1}, Counts{Right: 1}},
		{"what the parent had, cached", "/old", 8, engine.FieldExe.Set(), Counts{Cached: 1}, Counts{Right: 1}},
		{"what the parent had, not cached", "/old", 8, 0, Counts{Wrong: 1}, Counts{Right: 1}},
		{"what the parent was before all that is recorded, cached", "/first", 8, engine.FieldExe.Set(), Counts{Cached: 1}, Counts{Right: 1}},
		{"what the parent had later, cached", "/late", 8, engine.FieldExe.Set(), Counts{Wrong: 1}, Counts{Right: 1}},
		{"what is not inherited, cached", "/new", 1, engine.FieldSID.Set(), Counts{Right: 1}, Counts{Wrong: 1}},
	} {
		w := &Delivered{Backend: "x", Table: new(engine.CapabilityTable)}
		w.Table.Fields[engine.FieldExe] = engine.Capability{Origin: engine.OriginKernel, At: engine.EventExec}
		w.Table.Fields[engine.FieldSID] = engine.Capability{Origin: engine.OriginKernel, At: engine.EventIDChange}
		p := &engine.Process{PID: 9, Image: engine.Image{Exe: c.filename}}
		p.Known, p.SID, p.Cached = engine.FieldExe.Set()|engine.FieldSID.Set(), c.session, c.cached
		w.Single = []Seen{{Events: engine.EventFork, Time: 55, At: 55, Process: p}}
		s := Compute(w, family)
		if s.Fields[engine.FieldExe] != c.filenames || s.Fields[engine.FieldSID] != c.sessions {
			t.Errorf("%s: filename %+v, session %+v\n%s", c.name, s.Fields[engine.FieldExe], s.Fields[engine.FieldSID],
				strings.Join(s.Findings, "\n"))
		}
	}
}

// A cached value of a child may come from an unrecorded exec of its creator. If the creator's last
// exec before the birth is recorded, the child can have no other value.
func TestCachedWithoutGroundTruth(t *testing.T) {
	for name, recorded := range map[string]bool{"recorded": true, "open": false} {
		exec := truth.Record{Op: truth.Exec, PID: 8, Own: true, Earliest: 30, Latest: 40}
		if recorded {
			exec.State.Set(engine.FieldArgs, "recorded\x00")
		} else {
			exec.Open = engine.FieldArgs.Set()
		}
		end := truth.Record{Op: truth.Exit, PID: 9, Earliest: 90, Latest: 95, Status: 11}
		end.State.Set(engine.FieldArgs, "broken\x00")
		family := processes(t,
			truth.Record{Op: truth.Fork, PID: 8, Earliest: 10, Latest: 20},
			exec,
			truth.Record{Op: truth.Fork, PID: 9, Creator: 8, Earliest: 50, Latest: 60},
			end,
			truth.Record{Op: truth.Exit, PID: 8, Earliest: 96, Latest: 99})
		w := &Delivered{Backend: "x", Table: perfect().Table}
		p := &engine.Process{PID: 9, Image: engine.Image{Args: []byte{0}}, Exited: true}
		p.Known, p.Cached = engine.FieldArgs.Set(), engine.FieldArgs.Set()
		w.Single = []Seen{{Events: engine.EventExit, Time: 92, At: 92, Process: p}}
		if got := Compute(w, family).Fields[engine.FieldArgs].Wrong != 0; got != recorded {
			t.Errorf("%s: got wrong %v", name, got)
		}
	}
}

// The end of a process may be stamped just before its pid is reused.
func TestLateEndBeforeNextProcess(t *testing.T) {
	two := processes(t,
		truth.Record{Op: truth.Fork, PID: 9, Earliest: 100, Latest: 110},
		truth.Record{Op: truth.Exit, PID: 9, Earliest: 180, Latest: 190, Status: 0x300},
		truth.Record{Op: truth.Fork, PID: 9, Earliest: 195, Latest: 230},
		truth.Record{Op: truth.Exit, PID: 9, Earliest: 240, Latest: 250, Status: 0x400})
	event := func(time uint64, e engine.Events, status int32) Seen {
		p := &engine.Process{PID: 9, Exited: e == engine.EventExit}
		if p.Exited {
			p.Known = engine.FieldExit.Set()
			p.Task.Exit = engine.Exit{WaitStatus: status, Time: time}
		}
		return Seen{Events: e, Time: time, At: time, Process: p}
	}
	w := perfect()
	w.Table.Fields[engine.FieldStart].Partial, w.Joined, w.AfterEnd = all, nil, 50
	w.Single = []Seen{
		event(105, engine.EventFork, 0), event(200, engine.EventExit, 0x300),
		event(210, engine.EventFork, 0), event(245, engine.EventExit, 0x400),
	}
	if s := Compute(w, two); !s.Perfect() || s.Seen != 4 {
		t.Errorf("not perfect: got %+v", s)
	}
	// The end of the second process is equally late. It must not count as the end of the first.
	w.Single[3].Time, w.Single[3].Process.Task.Exit.Time, w.AfterEnd = 255, 255, 100
	if s := Compute(w, two); !s.Perfect() || s.Seen != 4 {
		t.Errorf("not perfect: got %+v", s)
	}
	// After the next process has begun, the end belongs to the next process.
	w.Single[1].Time, w.Single[1], w.Single[2] = 215, w.Single[2], w.Single[1]
	if s := Compute(w, two); s.Perfect() {
		t.Errorf("got a perfect score: %+v", s)
	}
}

// An end close to the reuse of the pid belongs to an unknown process if it has another parent.
func TestExitOfPreviousOwner(t *testing.T) {
	for parent, perfectly := range map[uint32]bool{3: false, 4: true} {
		w := perfect()
		w.Joined, w.AfterEnd = nil, 10
		p := &engine.Process{PID: 9, Exited: true}
		p.Known, p.Birth.Known, p.Birth.Parent.PID = engine.FieldExit.Set(), engine.FieldPPID.Set(), parent
		p.Task.Exit = engine.Exit{WaitStatus: 0x300, Time: 115}
		parts := []engine.Part{{Kind: engine.KindExit, Time: 115}}
		w.Single = slices.Insert(w.Single, 1, Seen{Events: engine.EventExit, Time: 115, At: 1122, Process: p, Parts: parts})
		if s := Compute(w, processes(t, records()...)); s.Perfect() != perfectly {
			t.Errorf("parent at birth %d: got perfect %v, %+v", parent, s.Perfect(), s)
		}
	}
}

// A second EXIT can belong to the pid's next process, whose birth was lost, but only if there is a
// gap between the two and the start times differ.
func TestTwoEndsOfOnePID(t *testing.T) {
	process := processes(t,
		truth.Record{Op: truth.Fork, PID: 9, Earliest: 100, Latest: 110},
		truth.Record{Op: truth.Exit, PID: 9, Earliest: 180, Latest: 250, Status: 0x300})
	for _, c := range []struct {
		name          string
		gap           engine.Gap
		start, second uint64
		perfectly     bool
	}{
		{name: "a gap", gap: engine.Gap{From: 220, To: 225}, perfectly: true},
		{name: "a gap, and other start times", gap: engine.Gap{From: 220, To: 225}, start: 105, second: 221, perfectly: true},
		{name: "a gap, and one start time", gap: engine.Gap{From: 220, To: 225}, start: 105, second: 105},
		{name: "no gap between them", gap: engine.Gap{From: 150, To: 160}},
	} {
		for _, swapped := range []bool{false, true} {
			event := func(time uint64, e engine.Events, status int32, start uint64) Seen {
				p := &engine.Process{PID: 9, Exited: e == engine.EventExit}
				if p.Exited {
					p.Known, p.Task.Exit = engine.FieldExit.Set(), engine.Exit{WaitStatus: status, Time: time}
					if start != 0 {
						p.Known, p.Start, p.StartUnit = p.Known.With(engine.FieldStart), start, 1
					}
				}
				return Seen{Events: e, Time: time, At: time, Process: p}
			}
			w := perfect()
			w.Table.Fields[engine.FieldStart].Partial, w.Joined, w.AfterEnd = all, nil, 50
			w.Single = []Seen{
				event(105, engine.EventFork, 0, 0), event(200, engine.EventExit, 0x300, c.start), event(230, engine.EventExit, 0x400, c.second),
				{Events: engine.EventGap, Time: c.gap.From, Gap: c.gap, Process: new(engine.Process)},
			}
			if swapped {
				w.Single[1].Process.Exit.WaitStatus, w.Single[2].Process.Exit.WaitStatus = 0x400, 0x300
				w.Single[1].Process.Start, w.Single[2].Process.Start = c.second, c.start
			}
			if s := Compute(w, process); (s.Duplicates == 0 && s.Seen == 2) != c.perfectly {
				t.Errorf("%s, swapped %v: got %+v", c.name, swapped, s)
			}
		}
	}
}

// A GONE with another start time belongs to an unknown process.
func TestGoneOfUnknownProcess(t *testing.T) {
	for start, perfectly := range map[uint64]bool{105: false, 50: true} {
		w := perfect()
		w.Joined = nil
		p := &engine.Process{PID: 9, Exited: true, Inferred: true}
		p.Known, p.Start, p.StartUnit = engine.FieldStart.Set(), start, 1
		w.Single = append(w.Single, Seen{Events: engine.EventGone, Time: 500, At: 1500, Process: p})
		if s := Compute(w, processes(t, records()...)); s.Perfect() != perfectly {
			t.Errorf("started at %d: got perfect %v, %+v", start, s.Perfect(), s)
		}
	}
}

// Of two processes with one pid, and one start time in /proc, a GONE belongs to the process without
// a delivered end, even if it is stamped while the other runs.
func TestGoneOfFirstProcess(t *testing.T) {
	two := processes(t,
		truth.Record{Op: truth.Fork, PID: 9, Earliest: 100, Latest: 110},
		truth.Record{Op: truth.Exit, PID: 9, Earliest: 180, Latest: 190},
		truth.Record{Op: truth.Fork, PID: 9, Earliest: 195, Latest: 230},
		truth.Record{Op: truth.Exit, PID: 9, Earliest: 340, Latest: 350})
	event := func(time uint64, e engine.Events) Seen {
		p := &engine.Process{PID: 9, Exited: e == engine.EventExit || e == engine.EventGone, Inferred: e == engine.EventGone}
		p.Known, p.Start, p.StartUnit = engine.FieldStart.Set(), 0, 1000
		return Seen{Events: e, Time: time, At: time, Process: p}
	}
	w := perfect()
	w.Joined = nil
	gap := Seen{Events: engine.EventGap, Time: 170, At: 170, Process: new(engine.Process), Gap: engine.Gap{From: 170, To: 192, Count: 1}}
	w.Single = []Seen{event(105, engine.EventFork), gap, event(200, engine.EventFork), event(300, engine.EventGone), event(345, engine.EventExit)}
	if s := Compute(w, two); s.Phantoms != 0 || s.Lost != 1 || s.Seen != 3 {
		t.Errorf("got %+v", s)
	}
	w.Single = append(w.Single[:1], event(185, engine.EventExit), event(200, engine.EventFork), event(300, engine.EventGone), event(345, engine.EventExit))
	if s := Compute(w, two); s.Phantoms != 1 {
		t.Errorf("got no finding for GONE of a live process: %+v", s)
	}
}

// If the end of the first process and no birth of the second were delivered, another end belongs to
// the second.
func TestEndWithoutBirth(t *testing.T) {
	two := processes(t,
		truth.Record{Op: truth.Fork, PID: 9, Earliest: 100, Latest: 110},
		truth.Record{Op: truth.Exit, PID: 9, Earliest: 180, Latest: 190},
		truth.Record{Op: truth.Fork, PID: 9, Earliest: 195, Latest: 230},
		truth.Record{Op: truth.Exit, PID: 9, Earliest: 240, Latest: 250})
	event := func(time uint64, e engine.Events) Seen {
		return Seen{Events: e, Time: time, At: time, Process: &engine.Process{PID: 9, Exited: e == engine.EventExit}}
	}
	w := perfect()
	w.Table.Fields[engine.FieldStart].Partial, w.Table.Fields[engine.FieldExit].Partial, w.Joined, w.AfterEnd = all, all, nil, 100
	gap := Seen{Events: engine.EventGap, Time: 194, At: 194, Process: new(engine.Process), Gap: engine.Gap{From: 194, To: 231, Count: 1}}
	w.Single = []Seen{event(105, engine.EventFork), event(185, engine.EventExit), gap, event(245, engine.EventExit)}
	if s := Compute(w, two); s.Duplicates != 0 || s.Seen != 3 || s.Lost != 1 {
		t.Errorf("got %+v", s)
	}
}

// A gap can hide the end of the first and the birth of the second process: then the status shows
// the owner of the end.
func TestEndAfterGap(t *testing.T) {
	two := processes(t,
		truth.Record{Op: truth.Fork, PID: 9, Earliest: 100, Latest: 110},
		truth.Record{Op: truth.Exit, PID: 9, Earliest: 180, Latest: 190, Status: 0xf},
		truth.Record{Op: truth.Fork, PID: 9, Earliest: 195, Latest: 230},
		truth.Record{Op: truth.Exit, PID: 9, Earliest: 240, Latest: 250})
	for _, c := range []struct {
		gap    engine.Gap
		status int32
		right  int
		why    string
	}{
		{engine.Gap{From: 185, To: 231, Count: 2}, 0, 1, "the second's"},
		{engine.Gap{From: 185, To: 231, Count: 2}, 0xf, 1, "the first's, late"},
		{engine.Gap{From: 185, To: 190, Count: 2}, 0, 0, "no gap hides a birth"},
		{engine.Gap{From: 185, To: 231, Count: 2}, 0x100, 0, "of none"},
	} {
		w := perfect()
		w.Table.Fields[engine.FieldStart].Partial, w.Table.Fields[engine.FieldExit].Partial, w.Joined, w.AfterEnd = all, all, nil, 100
		exit := &engine.Process{PID: 9, Exited: true}
		exit.Known, exit.Exit = engine.FieldExit.Set(), engine.Exit{WaitStatus: c.status, Time: 245}
		w.Single = []Seen{
			{Events: engine.EventFork, Time: 105, At: 105, Process: &engine.Process{PID: 9}},
			{Events: engine.EventGap, Time: c.gap.From, At: c.gap.From, Process: new(engine.Process), Gap: c.gap},
			{Events: engine.EventExit, Time: 245, At: 245, Process: exit},
		}
		if s := Compute(w, two); s.Fields[engine.FieldExit].Right != c.right {
			t.Errorf("%s: got %+v", c.why, s)
		}
	}
}

// The end of a thread may be as late as the end of a process, and no later.
func TestLateEndOfThreadBeforeNextProcess(t *testing.T) {
	two := processes(t,
		truth.Record{Op: truth.Fork, PID: 9, Earliest: 100, Latest: 110},
		truth.Record{Op: truth.ThreadStart, PID: 9, TID: 10, Earliest: 120, Latest: 130},
		truth.Record{Op: truth.ThreadEnd, PID: 9, TID: 10, Earliest: 150, Latest: 160},
		truth.Record{Op: truth.Exit, PID: 9, Earliest: 180, Latest: 190},
		truth.Record{Op: truth.Fork, PID: 9, Earliest: 195, Latest: 230},
		truth.Record{Op: truth.Exit, PID: 9, Earliest: 240, Latest: 250})
	for at, want := range map[uint64]int{192: 0, 220: 0, 231: 1, 281: 1} {
		w := &Delivered{Table: perfect().Table, Opened: 1, Threads: true, AfterEnd: 90}
		for e, time := range map[engine.Events]uint64{engine.EventFork: 125, engine.EventExit: at} {
			w.Single = append(w.Single, Seen{Events: e, Time: time, At: time, Thread: true, TID: 10, Process: &engine.Process{PID: 9}})
		}
		if s := Compute(w, two); s.Phantoms != want {
			t.Errorf("at %d: got %v %s", at, s, s.Findings)
		}
	}
}

func equal(a, b *Score) bool {
	x, y := *a, *b
	x.Findings, y.Findings = nil, nil
	return x.Fields == y.Fields && x.Stamp == y.Stamp && x.Truth == y.Truth && x.Seen == y.Seen && x.Phantoms == y.Phantoms &&
		x.Duplicates == y.Duplicates && x.Inversions == y.Inversions && x.Joined == y.Joined && x.Unjoined == y.Unjoined && x.Slow == y.Slow
}

// slowInversions counts inversions by the definition.
func slowInversions(w *Delivered, order []*truth.Event) (n int) {
	for i, e := range order {
		if slices.ContainsFunc(order[:i], func(o *truth.Event) bool {
			if e.Process == o.Process {
				return e.Before(o)
			}
			return w.latest(e) < o.Earliest
		}) {
			n++
		}
	}
	return n
}

func TestInversionsAsDefined(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	some := 0
	for range 2000 {
		var order []*truth.Event
		for range 1 + rng.IntN(4) {
			l := new(truth.Process)
			at := rng.Uint64N(50)
			for i := range 1 + rng.IntN(5) {
				kind := engine.KindSetProcTitle
				if i > 0 && rng.IntN(5) == 0 {
					kind = engine.KindExit
				}
				from := at + rng.Uint64N(20)
				to := from + rng.Uint64N(20)
				if rng.IntN(3) == 0 {
					from, to = from+300, to+300
				}
				l.Events = append(l.Events, &truth.Event{Process: l, Kind: kind, Earliest: from, Latest: to})
				at = to
			}
			order = append(order, l.Events...)
		}
		for range rng.IntN(4) {
			i, k := rng.IntN(len(order)), rng.IntN(len(order))
			order[i], order[k] = order[k], order[i]
		}
		w := &Delivered{AfterEnd: rng.Uint64N(2) * 40}
		got, want := len(w.inversions(order)), slowInversions(w, order)
		if got != want {
			t.Fatalf("got %d inversions, want %d", got, want)
		}
		some += want
	}
	if some == 0 {
		t.Fatal("no case had an inversion")
	}
}

// Each event that is removed from a perfect delivery, or doubled, is counted.
func TestDroppedAndDoubled(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		w := perfect()
		var list []Seen
		dropped, doubled := 0, 0
		for _, s := range w.Single {
			switch rng.IntN(4) {
			case 0:
				dropped++
			case 1:
				if s.Events&(engine.EventIDChange|engine.EventSetProcTitle) == 0 {
					doubled++
					list = append(list, s)
				}
				list = append(list, s)
			default:
				list = append(list, s)
			}
		}
		w.Single = list
		s := Compute(w, processes(t, records()...))
		if s.Truth != 5 || s.Seen != 5-dropped || s.Duplicates != doubled || s.Phantoms != 0 {
			t.Fatalf("%d dropped, %d doubled: got %+v", dropped, doubled, s)
		}
		if s.Perfect() != (dropped+doubled == 0) {
			t.Fatalf("%d dropped, %d doubled: got perfect %v", dropped, doubled, s.Perfect())
		}
	}
}

// Events of threads are scored against the recorded threads.
func TestThreads(t *testing.T) {
	recorded := []truth.Record{
		{Op: truth.Fork, PID: 9, Earliest: 100, Latest: 110},
		{Op: truth.ThreadStart, PID: 9, TID: 10, Earliest: 120, Latest: 130},
		{Op: truth.ThreadStart, PID: 9, TID: 11, Earliest: 130, Latest: 140},
		{Op: truth.ThreadEnd, PID: 9, TID: 10, Earliest: 150, Latest: 160},
		{Op: truth.ThreadEnd, PID: 9, TID: 11, Earliest: 170, Latest: 190},
		{Op: truth.Exit, PID: 9, Earliest: 170, Latest: 190},
	}
	thread := func(e engine.Events, tid uint32, at uint64) Seen {
		return Seen{Events: e, Time: at, At: at, Thread: true, TID: tid, Process: &engine.Process{PID: 9}}
	}
	all := func() []Seen {
		return []Seen{thread(engine.EventFork, 10, 125), thread(engine.EventFork, 11, 135), thread(engine.EventExit, 11, 180), thread(engine.EventExit, 10, 155)}
	}
	for _, c := range []struct {
		name                       string
		seen                       []Seen
		missing, phantoms, doubled int
		wrong, table               int
		unasked                    bool
	}{
		{name: "all", seen: all()},
		{name: "with an end of the leader", seen: append(all(), thread(engine.EventExit, 9, 180))},
		{name: "no birth", seen: all()[1:], missing: 1},
		{name: "no end of the last", seen: append(all()[:2], all()[3]), missing: 1},
		{name: "twice", seen: append(all(), thread(engine.EventExit, 10, 156)), doubled: 1},
		{name: "an unknown thread", seen: append(all(), thread(engine.EventFork, 12, 140)), phantoms: 1},
		{name: "a wrong stamp", seen: append(all()[:3], thread(engine.EventExit, 10, 145)), wrong: 1},
		{name: "not in the table", seen: func() []Seen { s := all(); s[0].Table = "nothing"; return s }(), table: 1},
		{name: "nobody asked", seen: all(), phantoms: 4, unasked: true},
	} {
		w := &Delivered{Table: perfect().Table, Opened: 1, Threads: !c.unasked, Single: c.seen}
		s := Compute(w, processes(t, recorded...))
		missing := s.Truth - s.Seen - 2 // FORK and EXIT of the process are missing
		if missing != c.missing || s.Phantoms != c.phantoms || s.Duplicates != c.doubled || s.Stamp.Wrong != c.wrong || s.Table != c.table {
			t.Errorf("%s: got %v", c.name, s)
			t.Log(strings.Join(s.Findings, "\n"))
		}
	}
}

// The checks for every delivered event are scored.
func TestDelivery(t *testing.T) {
	for name, damage := range map[string]func(*Delivered){
		"the wall time is off":             func(w *Delivered) { w.WallOffset, w.Single[1].Wall = 5e9, time.Unix(6, 0) },
		"the table has another":            func(w *Delivered) { w.Single[1].Table = "another" },
		"marked as ended too early":        func(w *Delivered) { w.Single[1].Process.Exited = true },
		"joined though one by one":         func(w *Delivered) { w.Single[3].Events |= engine.EventExit },
		"a joined process that is missing": func(w *Delivered) { w.Joined = w.Joined[:1] },
		"a joined part that is missing":    func(w *Delivered) { w.Hold, w.Joined[0].Parts = 1, w.Joined[0].Parts[:2] },
		"a joined event with an old comm":  func(w *Delivered) { w.Joined[1].Process.Comm = "mid" },
		"a thread that is not asked":       func(w *Delivered) { w.Joined[1].Thread = true },
		"a change of other ids with ids of before": func(w *Delivered) {
			p := &w.Single[1].Parts[0]
			p.IDChange, p.Known = engine.ChangedGID, engine.FieldUIDs.Set()
		},
	} {
		w := perfect()
		damage(w)
		if s := Compute(w, processes(t, records()...)); s.Perfect() {
			t.Errorf("%s: got %v", name, s)
		}
	}
	w := perfect()
	w.WallOffset, w.Single[1].Wall = 5e9, time.Unix(5, 100e6)
	if s := Compute(w, processes(t, records()...)); !s.Perfect() {
		t.Errorf("wall time within the accepted step: got %v %s", s, s.Findings)
	}
}

// An end may show the grandparent only if the parent had ended by then.
func TestAdoptedAtItsEnd(t *testing.T) {
	for end, right := range map[uint64]bool{184: true, 191: false} {
		w := perfect()
		w.Single[4].Process.PPID = 2
		all := append(records(),
			truth.Record{Op: truth.Fork, PID: 3, Earliest: 50, Latest: 60, Parent: 2},
			truth.Record{Op: truth.Exit, PID: 3, Earliest: end, Latest: 195})
		all[0].Creator = 3
		s := Compute(w, slices.DeleteFunc(processes(t, all...), func(l *truth.Process) bool { return l.PID != 9 }))
		if got := s.Fields[engine.FieldPPID].Wrong == 0; got != right {
			t.Errorf("parent's end from %d on: got right %v, findings %v", end, got, s.Findings)
		}
	}
}

// A change of ids after the queue's end does not belong to an earlier event.
func TestRepeatedAfterTheEnd(t *testing.T) {
	for closed, want := range map[uint64]int{0: 1, 140: 0} {
		w := perfect()
		w.Single, w.Joined, w.Closed = w.Single[:2], nil, closed
		all := records()
		again := all[1]
		again.Earliest, again.Latest = 135, 140
		again.State.Set(engine.FieldUIDs, "7 8")
		if s := Compute(w, processes(t, append(all, again)...)); s.Fields[engine.FieldUIDs].Wrong != want {
			t.Errorf("closed at %d: got %v", closed, s.Findings)
		}
	}
}

// An orphan's exit signal is SIGCHLD, whatever its signal at birth.
func TestExitSignalOfOrphan(t *testing.T) {
	for end, right := range map[uint64]bool{124: true, 150: false} {
		w := perfect()
		w.Single, w.Joined = w.Single[:2], nil
		p := w.Single[1].Process
		p.Known, p.ParentSignal = p.Known.With(engine.FieldParentSignal), 17
		all := append(records(),
			truth.Record{Op: truth.Fork, PID: 3, Earliest: 50, Latest: 60, Parent: 2},
			truth.Record{Op: truth.Exit, PID: 3, Earliest: end, Latest: 195})
		all[0].Creator = 3
		all[0].State.Set(engine.FieldParentSignal, "23")
		s := Compute(w, slices.DeleteFunc(processes(t, all...), func(l *truth.Process) bool { return l.PID != 9 }))
		if got := s.Fields[engine.FieldParentSignal].Wrong == 0; got != right {
			t.Errorf("parent's end from %d on: got right %v, findings %v", end, got, s.Findings)
		}
	}
}

// An event may be missing if it lies in a gap and was counted, or after the queue's end began.
func TestLost(t *testing.T) {
	gap := func(w *Delivered, from, to uint64) {
		for _, list := range []*[]Seen{&w.Single, &w.Joined} {
			*list = append(*list, Seen{Events: engine.EventGap, Gap: engine.Gap{From: from, To: to}, Process: new(engine.Process)})
		}
	}
	for _, c := range []struct {
		name   string
		damage func(*Delivered)
		lost   uint64
		fine   bool
	}{
		{name: "in a gap", lost: 1, fine: true, damage: func(w *Delivered) { gap(w, 140, 145) }},
		{name: "before the gap", lost: 1, damage: func(w *Delivered) { gap(w, 151, 200) }},
		{name: "after the gap", lost: 1, damage: func(w *Delivered) { gap(w, 100, 139) }},
		{name: "not counted", damage: func(w *Delivered) { gap(w, 140, 145) }},
		{name: "another process that was born in a gap", lost: 1, fine: true, damage: func(w *Delivered) {
			gap(w, 140, 145)
			gap(w, 200, 210)
			other := Seen{Events: engine.EventExec, Time: 220, Process: &engine.Process{PID: 9}}
			gone := Seen{Events: engine.EventGone, Time: 230, Process: other.Process}
			w.Single, w.Joined = append(w.Single, other, gone), append(w.Joined, other, gone)
		}},
		{name: "one that was born in none", lost: 1, damage: func(w *Delivered) {
			gap(w, 140, 145)
			w.Single = append(w.Single, Seen{Events: engine.EventExec, Time: 220, Process: &engine.Process{PID: 9}})
		}},
		{name: "no gap", lost: 1, damage: func(*Delivered) {}},
		{name: "after the end", fine: true, damage: func(w *Delivered) { w.Closed = 150 }},
		{name: "before the end", damage: func(w *Delivered) { w.Closed = 151 }},
	} {
		w := perfect()
		w.Single = slices.Delete(w.Single, 2, 3) // the comm, which was set from 140 to 150
		w.Joined[0].Parts, w.Joined[0].Events = w.Joined[0].Parts[:2], w.Joined[0].Events&^engine.EventSetProcTitle
		w.Joined[0].Process.Comm = "old"
		c.damage(w)
		if s := Compute(w, processes(t, records()...)); s.PerfectBut(c.lost) != c.fine {
			t.Errorf("%s: got %v %s", c.name, s, s.Findings)
		}
	}
}

// A core dump derived from a lost EXIT is lost with the EXIT: only one event is counted. A core
// dump that the kernel reports is counted too.
func TestLostEndWithACore(t *testing.T) {
	for _, c := range []struct {
		origin engine.Origin
		lost   int
	}{{engine.OriginDerived, 1}, {engine.OriginKernel, 2}} {
		w := perfect()
		w.Table.Kinds[engine.KindCoreDump].Origin = c.origin
		gap := engine.Gap{From: 170, To: 195, Count: 1}
		w.Single = append(w.Single[:4], Seen{Events: engine.EventGap, Time: 170, At: 170, Process: new(engine.Process), Gap: gap})
		w.Joined = nil
		r := append(records(), truth.Record{Op: truth.Core, PID: 9, Earliest: 180, Latest: 190})
		r[5].Status = 0x8b
		if s := Compute(w, processes(t, r...)); s.Lost != c.lost || !s.PerfectBut(uint64(c.lost)) {
			t.Errorf("%s: got %d lost; %s %q", c.origin, s.Lost, s, s.Findings)
		}
	}
}

// /proc may be read after the next event. Then its values for an exec are not required, for example
// if a change sets only the saved id.
func TestReadable(t *testing.T) {
	uids := func(value string) (s truth.State) {
		s.Set(engine.FieldUIDs, value)
		return s
	}
	for _, c := range []struct {
		next truth.Event
		f    engine.Field
		want bool
	}{
		{truth.Event{Kind: engine.KindExit}, engine.FieldUIDs, true},
		{truth.Event{Kind: engine.KindIDChange, ID: engine.ChangedUID, State: uids("0 1")}, engine.FieldUIDs, true},
		{truth.Event{Kind: engine.KindIDChange, ID: engine.ChangedUID, State: uids("0 0")}, engine.FieldUIDs, false},
		{truth.Event{Kind: engine.KindIDChange, ID: engine.ChangedUID, State: uids("0 0")}, engine.FieldCaps, false},
		{truth.Event{Kind: engine.KindIDChange, ID: engine.ChangedUID}, engine.FieldSUID, false},
		{truth.Event{Kind: engine.KindIDChange, ID: engine.ChangedUID, State: uids("0 0")}, engine.FieldGIDs, true},
		{truth.Event{Kind: engine.KindIDChange, ID: engine.ChangedGID, Unchanged: true}, engine.FieldSGID, false},
		{truth.Event{Kind: engine.KindIDChange, ID: engine.ChangedGID, Unchanged: true}, engine.FieldCwd, true},
		{truth.Event{Kind: engine.KindExec}, engine.FieldExe, false},
		{truth.Event{Kind: engine.KindExec}, engine.FieldUIDs, true},
	} {
		l := new(truth.Process)
		l.Events = []*truth.Event{{Process: l, Kind: engine.KindExec, Read: true, State: uids("0 0")}, &c.next}
		for _, id := range []engine.IDChange{0, c.next.ID} {
			if id != 0 {
				l.Events[0].Kind, l.Events[0].ID = engine.KindIDChange, id
			}
			if got, want := readable(l.Events[0], c.f), c.want && (id == 0 || changed(id).Has(c.f)); got != want {
				t.Errorf("%v of %v before %v: got %v", c.f, l.Events[0].Kind, c.next.Kind, got)
			}
		}
	}
}

// A gap invalidates values read before it, and values read until its end.
func TestReadableBeforeAGap(t *testing.T) {
	const hold = 1000 // of perfect
	for from, fine := range map[uint64]bool{171 + hold: false, 170 + hold: true, 0: false} {
		w := perfect()
		w.Table.Fields[engine.FieldCwd].Origin = engine.OriginProc
		w.Single[3].Process.Known &^= engine.FieldCwd.Set()
		if w.Joined = nil; from != 0 {
			w.Single = append(w.Single, Seen{Events: engine.EventGap, Gap: engine.Gap{From: from, To: from}, Process: new(engine.Process)})
		}
		l := processes(t, records()...)
		l[0].Events[3].Read = true
		if s := Compute(w, l); s.Perfect() != fine {
			t.Errorf("a gap at %d: got %v %s", from, s, s.Findings)
		}
	}
}

// A source without time to read /proc may leave its fields unknown, but no other defect is excused.
func TestUnread(t *testing.T) {
	for _, unread := range []bool{false, true} {
		w := perfect()
		w.Table.Fields[engine.FieldCwd].Origin = engine.OriginProc
		w.Single[3].Process.Known &^= engine.FieldCwd.Set()
		w.Joined, w.Unread = nil, unread
		l := processes(t, records()...)
		l[0].Events[3].Read = true
		if s := Compute(w, l); s.Perfect() != unread {
			t.Errorf("unread %v: got %v %s", unread, s, s.Findings)
		}
		w.Single[3].Process.Cwd = "/wrong"
		w.Single[3].Process.Known |= engine.FieldCwd.Set()
		if s := Compute(w, l); s.Perfect() {
			t.Errorf("unread %v: got no finding for a wrong value", unread)
		}
	}
}

// An event at the time of an optional event matches it, even if a gap explains other missing
// events.
func TestOptionalByItsTime(t *testing.T) {
	w := perfect()
	w.Single[3].Time, w.Single[3].Process.Comm = 177, "other"
	w.Single[3].Process.Image.Args, w.Joined = []byte("other\x00"), nil
	w.Single = append(w.Single, Seen{Events: engine.EventGap, Gap: engine.Gap{From: 165, To: 165}, Process: new(engine.Process)})
	other := truth.Record{Op: truth.Exec, PID: 9, Earliest: 175, Latest: 178, Own: true, Optional: true}
	if s := Compute(w, processes(t, append(records(), other)...)); !s.PerfectBut(1) {
		t.Errorf("got %v %s", s, s.Findings)
	}
}

// A cached value may come from an unrecorded exec, if the next exec is in a gap.
func TestOpenBeforeAGap(t *testing.T) {
	open, next := records(), records()[4]
	open[4].State.Forget(engine.FieldArgs.Set())
	next.Earliest, next.Latest = 172, 175
	open = append(open[:5], next, open[5])
	for _, gap := range []engine.Gap{{From: 172, To: 175}, {From: 1, To: 2}} {
		w := perfect()
		w.Joined = nil
		end := w.Single[4].Process
		end.Image.Args, end.Cached = []byte("open\x00"), engine.FieldArgs.Set()
		w.Single = append(w.Single, Seen{Events: engine.EventGap, Gap: gap, Process: new(engine.Process)})
		if got, want := Compute(w, processes(t, open...)).Fields[engine.FieldArgs].Wrong == 0, gap.To == 175; got != want {
			t.Errorf("gap %+v: got fine %v", gap, got)
		}
	}
}

// A text with a dropped record may be unknown, but no other field.
func TestCut(t *testing.T) {
	for f, cut := range map[engine.Field]bool{engine.FieldArgs: true, engine.FieldCwd: true, engine.FieldUIDs: false, engine.FieldComm: false} {
		w := perfect()
		w.Joined = nil
		w.Single[3].Process.Known &^= f.Set()
		for _, w.Cut = range []bool{false, true} {
			if got := Compute(w, processes(t, records()...)).Perfect(); got != (cut && w.Cut) {
				t.Errorf("%s unknown, records cut %v: got perfect %v", f, w.Cut, got)
			}
		}
	}
}

// The reported container must be the container of the scenario's cgroup.
func TestContainer(t *testing.T) {
	id := strings.Repeat("0", 64)
	for _, c := range []struct {
		path, is string
		cut      engine.Fields
		wrong    bool
	}{
		{"/docker/" + id, "docker " + id + " pod  unit  inside /", 0, false},
		{"/docker/" + id, "  pod  unit  inside ", 0, true},
		{"/docker", "docker " + id + " pod  unit  inside /", 0, true},
		{"/docker/" + id, "", 0, false}, // not recorded
		{"/a/docker/" + id, "docker " + id + " pod  unit  inside /", engine.FieldCgroup.Set(), false},
	} {
		w, r := perfect(), records()
		r[0].State.Set(engine.FieldCgroup, c.path)
		r[0].State.Container = c.is
		w.Table.Fields[engine.FieldCgroup].Whole.Bytes = 1
		for _, list := range [][]Seen{w.Single, w.Joined} {
			for i := range list {
				p := list[i].Process
				p.Cgroup, p.Known, p.Truncated = c.path, p.Known|engine.FieldCgroup.Set(), c.cut
				if c.cut != 0 {
					p.Cgroup = p.Cgroup[len("/a/"):]
				}
			}
		}
		if got := Compute(w, processes(t, r...)); (got.Fields[engine.FieldCgroup].Wrong > 0) != c.wrong || got.Perfect() == c.wrong {
			t.Errorf("%+v: got %s %q", c, got, got.Findings)
		}
	}
}

// /proc shows the same for a process without arguments as for hidden arguments.
func TestReadableWithoutArguments(t *testing.T) {
	for text, want := range map[string]bool{"": false, "\x00": true} {
		e := &truth.Event{Kind: engine.KindExec, Read: true}
		e.Process = &truth.Process{Events: []*truth.Event{e}}
		e.State.Set(engine.FieldArgs, text)
		e.State.Set(engine.FieldExe, "")
		if got := readable(e, engine.FieldArgs); got != want || !readable(e, engine.FieldExe) {
			t.Errorf("arguments %q: got readable %v", text, got)
		}
	}
}

// Fields that may have changed during the read need not be known.
func TestReadableInTheMiddleOfAChange(t *testing.T) {
	for _, c := range []struct {
		changed, readable engine.Fields
	}{
		{0, paths | ofImage | engine.FieldsIDs},
		{engine.FieldArgs.Set(), paths &^ ofImage},
		{engine.FieldMntNS.Set(), ofImage&^paths | engine.FieldsIDs},
		{paths, ofImage&^paths | engine.FieldsIDs},
		{engine.FieldCwd.Set(), paths | ofImage | engine.FieldsIDs},
	} {
		e := &truth.Event{Kind: engine.KindExec, Read: true, Snapshots: make([]truth.Snapshot, 2)}
		e.Process = &truth.Process{Events: []*truth.Event{e}}
		for f := range engine.Field(engine.NumFields) {
			e.State.Set(f, "old")
			if c.changed.Has(f) {
				e.Snapshots[1].State.Set(f, "new")
			}
		}
		for f := range engine.Field(engine.NumFields) {
			if (paths | ofImage | engine.FieldsIDs).Has(f) && readable(e, f) != c.readable.Has(f) {
				t.Errorf("%s when %s changes: got readable %v", f, c.changed, readable(e, f))
			}
		}
	}
}

// A parent that is printed as ended must have ended before the event.
func TestPrintedAsEnded(t *testing.T) {
	family := processes(t,
		truth.Record{Op: truth.Fork, PID: 8, Earliest: 100, Latest: 110}, truth.Record{Op: truth.Exit, PID: 8, Earliest: 180, Latest: 190},
		truth.Record{Op: truth.Fork, PID: 9, Earliest: 130, Latest: 140, Parent: 8}, truth.Record{Op: truth.Exit, PID: 9, Earliest: 200, Latest: 210},
		truth.Record{Op: truth.Fork, PID: 8, Earliest: 191, Latest: 192}, truth.Record{Op: truth.Exit, PID: 8, Earliest: 300, Latest: 310})
	for _, c := range []struct {
		time uint64
		pid  uint32
		want int
	}{{135, 8, 1}, {135, 7, 0}, {185, 8, 0}, {195, 8, 0}, {135, 9, 0}} {
		w := perfect()
		w.Joined = nil
		w.Single = []Seen{{Events: engine.EventFork, Time: c.time, At: c.time, Process: &engine.Process{PID: 9}, Ended: []engine.Identity{{PID: c.pid, Start: 105}}}}
		if s := Compute(w, family); s.Table != c.want {
			t.Errorf("%+v: got %d\n%s", c, s.Table, strings.Join(s.Findings, "\n"))
		}
	}
}

// slowJoins calls f with each result that the rules allow for events.
func (j *scorer) slowJoins(events []*truth.Event, f func([]engine.Events)) {
	for choice := range 1 << len(events) {
		var chosen []*truth.Event
		missing := 0
		for i, e := range events {
			if choice>>i&1 == 0 {
				chosen = append(chosen, e)
			} else if !e.Optional {
				missing++
			}
		}
		if missing > 0 {
			continue
		}
	changes:
		for changed := range 1 << len(chosen) {
			for i, e := range chosen {
				if changed>>i&1 != 0 && (i == 0 || !j.mayShowChange(e, chosen[i-1])) {
					continue changes
				}
			}
			var joined []engine.Events
			for i := 0; i < len(chosen); {
				head := chosen[i].Kind
				mask, shown := head.Events(), head.Events()
				for i++; i < len(chosen); i++ {
					if changed>>i&1 != 0 {
						if !canJoin(head, engine.KindIDChange, shown) {
							break
						}
						shown |= engine.EventIDChange
					}
					if !canJoin(head, chosen[i].Kind, shown) {
						break
					}
					mask |= chosen[i].Kind.Events()
					shown |= chosen[i].Kind.Events()
				}
				joined = append(joined, mask)
			}
			f(joined)
		}
	}
}

// joinsTo must accept exactly the results of slowJoins.
func TestJoinsAsDefined(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	kinds := []engine.Kind{engine.KindFork, engine.KindSetProcTitle, engine.KindIDChange, engine.KindExec, engine.KindExit, engine.KindCoreDump}
	for n := range 300 {
		j := &scorer{w: perfect()}
		kinds := kinds
		if n%2 == 1 { // a backend without changes of ids, which an EXEC shows then
			j.w.Table.Kinds[engine.KindIDChange] = engine.Capability{}
			kinds = slices.DeleteFunc(slices.Clone(kinds), func(k engine.Kind) bool { return k == engine.KindIDChange })
		}
		var optional engine.Events
		events := make([]*truth.Event, 1+rng.IntN(5))
		for i := range events {
			e := &truth.Event{Kind: kinds[rng.IntN(len(kinds))], Optional: rng.IntN(4) == 0}
			e.State.Known = engine.FieldsIDs.With(engine.FieldCaps)
			e.State.Value[engine.FieldUIDs] = string(rune('0' + rng.IntN(2)))
			if events[i] = e; e.Optional {
				optional |= e.Kind.Events()
			}
		}
		visible := func(joined []engine.Events) []engine.Events {
			for i := range joined {
				joined[i] &^= optional
			}
			return slices.DeleteFunc(joined, func(e engine.Events) bool { return e == 0 })
		}
		ways := make(map[string]bool)
		j.slowJoins(events, func(joined []engine.Events) {
			joined = visible(joined)
			ways[fmt.Sprint(joined)] = true
			if !j.joinsTo(events, optional, joined) {
				t.Fatalf("got joinsTo false for %v from %v", joined, events)
			}
		})
		for range 20 {
			other := make([]engine.Events, rng.IntN(4))
			for i := range other {
				for range 2 {
					other[i] |= kinds[rng.IntN(len(kinds))].Events()
				}
			}
			if other = visible(other); j.joinsTo(events, optional, other) != ways[fmt.Sprint(other)] {
				t.Fatalf("joinsTo %v from %v: got %v", other, events, !ways[fmt.Sprint(other)])
			}
		}
	}
}

// A process with many events, each of which may show a change of ids, is scored too.
func TestLongProcessIsJoined(t *testing.T) {
	r := records()
	r = append(r[:1], r[4], r[5])
	for i := range uint64(30) {
		r = slices.Insert(r, 2, truth.Record{Op: truth.Comm, PID: 9, Earliest: 171 + i/5, Latest: 171 + i/5, Own: true, State: r[0].State})
	}
	l := processes(t, r...)[0]
	start, comm, exit := engine.EventFork|engine.EventExec, engine.EventSetProcTitle, engine.EventExit
	comms := slices.Repeat([]engine.Events{comm}, 30)
	for _, c := range []struct {
		right  bool
		joined []engine.Events
	}{
		{true, []engine.Events{start | comm | exit}},
		{true, []engine.Events{start, comm | exit}},
		{true, append(append([]engine.Events{start}, comms...), exit)},
		{false, []engine.Events{start, exit}},
		{false, []engine.Events{start | comm | exit, exit}},
		{false, append(append([]engine.Events{start | comm}, comms...), exit)},
	} {
		w := perfect()
		for _, age := range []uint64{w.Hold, 100} { // 100: a queue that was nearly full
			var seen []*Seen
			for _, e := range c.joined {
				seen = append(seen, &Seen{Events: e, Time: 105, At: 105 + age})
			}
			j := &scorer{Score: new(Score), w: w}
			j.scoreAggregation(l, seen)
			if young := age < w.Hold; j.Joined+j.Unjoined != map[bool]int{false: 1}[young] || !young && (j.Joined == 1) != c.right {
				t.Errorf("%v, delivered after %d: got joined %d, unjoined %d", c.joined, age, j.Joined, j.Unjoined)
			}
		}
	}
}

// A call that sets only the file system id changes capabilities, and its event is optional: a value
// from /proc at that time can be cached until the end, a kernel's report can't.
func TestWasOpen(t *testing.T) {
	for origin, want := range map[engine.Origin]bool{engine.OriginProc: true, engine.OriginKernel: false} {
		w := perfect()
		w.Table.Fields[engine.FieldCaps] = engine.Capability{Origin: origin, At: engine.EventFork | engine.EventExec}
		l := new(truth.Process)
		var known truth.State
		known.Set(engine.FieldCaps, "all")
		l.Events = []*truth.Event{
			{Process: l, Kind: engine.KindFork, Earliest: 100, Latest: 110, State: known},
			{Process: l, Kind: engine.KindIDChange, ID: engine.ChangedUID, Earliest: 120, Latest: 130, Optional: true, Unchanged: true},
			{Process: l, Kind: engine.KindExit, Earliest: 140, Latest: 150, State: known},
		}
		j := &scorer{w: w}
		if got := j.wasOpen(l.Events[2], engine.FieldCaps); got != want {
			t.Errorf("capabilities from %s: got wasOpen %t", origin, got)
		}
	}
}

// A process keeps the entry leader of its birth, cached, if its own or its parent's executable was
// read too late from /proc. This is right if the scenario does not record the entry leader.
func TestEntryFromProc(t *testing.T) {
	for _, c := range []struct {
		filename engine.Origin
		born     string
		right    bool
	}{{engine.OriginProc, "", true}, {engine.OriginProc, "container 4", false}, {engine.OriginKernel, "", false}} {
		r := records()
		r[0].State.Forget(engine.FieldEntryLeader.Set())
		if c.born != "" {
			r[0].State.Set(engine.FieldEntryLeader, c.born)
		}
		r[4].State.Set(engine.FieldEntryLeader, "sshd 9")
		w := perfect()
		w.Table.Fields[engine.FieldExe].Origin = c.filename
		w.Table.Fields[engine.FieldEntryLeader] = engine.Capability{Origin: engine.OriginDerived, At: engine.EventFork | engine.EventExec}
		for i := range w.Single {
			p := w.Single[i].Process
			p.EntryType, p.EntryLeader = engine.EntryInit, engine.Identity{PID: 1}
			p.Known, p.Cached = p.Known.With(engine.FieldEntryLeader), engine.FieldEntryLeader.Set()
		}
		w.Joined = nil
		if s := Compute(w, processes(t, r...)); (s.Fields[engine.FieldEntryLeader].Wrong == 0) != c.right {
			t.Errorf("filename from %v, born with %q: got %+v %q", c.filename, c.born, s.Fields[engine.FieldEntryLeader], s.Findings)
		}
	}
}

// A backend may miss a signal during exit(2) if its table lists this.
func TestUnprovenStatus(t *testing.T) {
	for _, c := range []struct {
		byThread       bool
		unproven       engine.Unproven
		status         int32
		unknown, wrong int
	}{
		{true, engine.UnprovenThreadExit, 15, 1, 0},
		{true, 0, 15, 0, 1},
		{false, engine.UnprovenThreadExit, 15, 0, 1},
		{true, engine.UnprovenThreadExit, 0, 1, 0},
		{true, engine.UnprovenThreadExit, 4 << 8, 0, 1},
		{false, engine.UnprovenReboot, 1, 1, 0},
		{false, engine.UnprovenThreadExit, 1, 0, 1},
		{false, engine.UnprovenReboot, 15, 0, 1},
		{false, engine.UnprovenLateReboot, 2, 1, 0},
		{false, engine.UnprovenLateReboot, 15, 0, 1},
	} {
		r := []truth.Record{records()[0], {Op: truth.Exit, PID: 9, Earliest: 180, Latest: 190, ByThread: c.byThread, Status: c.status}}
		w := &Delivered{Backend: "x", Table: perfect().Table, Hold: 1000, Opened: 1, Clock: new(Tolerance)}
		w.Table.Fields[engine.FieldExit].Unproven = c.unproven
		exit := engine.Process{PID: 9, Exited: true}
		exit.Known = engine.FieldExit.Set()
		if exit.Exit.Time = 185; c.byThread {
			exit.Exit.WaitStatus = 3 << 8
		}
		w.Single = []Seen{{Events: engine.EventExit, Time: 185, Process: &exit}}
		s := Compute(w, processes(t, r...))
		if v := s.Fields[engine.FieldExit]; v.Unknown != c.unknown || v.Wrong != c.wrong {
			t.Errorf("%+v: got %+v, %q", c, v, s.Findings)
		}
	}
}

// The table may omit ends by exit(2).
func TestOmitEnds(t *testing.T) {
	for byThread, missing := range map[bool]int{true: 0, false: 1} {
		r := []truth.Record{records()[0], {Op: truth.Exit, PID: 9, Earliest: 180, Latest: 190, ByThread: byThread}}
		w := &Delivered{Backend: "x", Table: perfect().Table, Hold: 1000, Opened: 1, Clock: new(Tolerance)}
		w.Table.Kinds[engine.KindFork].Omits, w.Table.Kinds[engine.KindExit].Omits = engine.OmitAny, engine.OmitEnds
		if s := Compute(w, processes(t, r...)); s.Truth-s.Seen != missing {
			t.Errorf("by a thread %v: got %d of %d events seen, %q", byThread, s.Seen, s.Truth, s.Findings)
		}
	}
}
