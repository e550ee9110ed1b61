package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/engine/enginetest"
)

// withFields returns an event that has the fields, each with a value.
func withFields(kind engine.Kind, pid uint32, at uint64, fields engine.Fields) enginetest.Raw {
	r := raw(kind, pid, at)
	r.Task.Known = fields
	for f, to := range map[engine.Field]*[]byte{
		engine.FieldComm: &r.Comm, engine.FieldExe: &r.Exe, engine.FieldArgs: &r.Args,
		engine.FieldCwd: &r.Cwd, engine.FieldCgroup: &r.Cgroup, engine.FieldExecPath: &r.ExecPath,
	} {
		if fields.Has(f) {
			*to = []byte(f.String())
		}
		r.Task.Known &^= f.Set()
	}
	return r
}

// onlyEvent returns the only delivered event.
func (r *rig) onlyEvent(t *testing.T) *engine.Event {
	t.Helper()
	r.clock.Advance(2 * time.Second)
	ev, err := r.Get()
	if err != nil {
		t.Fatal(err)
	}
	return ev.Clone()
}

// allButExit has all fields except the exit and the fields that never change. It includes the
// start.
const allButExit = engine.AllFields &^ (1<<engine.FieldExit | 1<<engine.FieldBirthParentTID | 1<<engine.FieldPIDNS | engine.FieldsUsage)

// derived are the fields that the engine derives from an EXEC with all fields.
const derived = engine.Fields(1 << engine.FieldPrivileges)

// An event without fields makes those fields cached or unknown that FieldChanges lists for its
// kind.
func TestFieldChanges(t *testing.T) {
	var unseen engine.Fields
	for f, c := range engine.FieldChanges {
		if c.Unseen != "" {
			unseen |= engine.Field(f).Set()
		}
	}
	if unseen != engine.ChangeUnseen {
		t.Errorf("got another ChangeUnseen than in the table: %s differ", unseen^engine.ChangeUnseen)
	}
	r := newRig(t, engine.Options{})
	r.src.Push(withFields(exec, 1, 0, allButExit))
	if p := r.onlyEvent(t).Process; p.Cached != 0 {
		t.Errorf("cached although the event has it: got %s", p.Cached)
	}
	r.src.Push(raw(engine.KindPtrace, 1, 10))
	if p := r.onlyEvent(t).Process; p.Known&^derived != allButExit || p.Cached != unseen {
		t.Errorf("got known %s, cached %s, want cached %s", p.Known, p.Cached, unseen)
	}
	r.src.Push(withFields(comm, 1, 20, allButExit))
	if p := r.onlyEvent(t).Process; p.Cached != 0 {
		t.Errorf("still cached after a new report: got %s", p.Cached)
	}
	// The source cannot prove that the value of this field was valid at the event.
	late := withFields(comm, 1, 30, allButExit)
	late.Task.Cached = engine.FieldCwd.Set()
	r.src.Push(late)
	if p := r.onlyEvent(t).Process; p.Cached != engine.FieldCwd.Set() {
		t.Errorf("got cached %s, want cwd", p.Cached)
	}
	// The event lacks this field, which may have changed.
	r.src.Push(withFields(comm, 1, 40, allButExit))
	r.onlyEvent(t)
	other := withFields(exec, 1, 50, 0)
	other.Task.Cached = engine.FieldUIDs.Set()
	r.src.Push(other)
	if p := r.onlyEvent(t).Process; !p.Cached.Has(engine.FieldUIDs) || p.Cached.Has(engine.FieldGIDs) {
		t.Errorf("got cached %s, want uid and not gid", p.Cached)
	}
}

// Fields become cached if the source does not report all events of a kind that changes them.
func TestCachedWithoutTheEvents(t *testing.T) {
	r := &rig{src: new(enginetest.Source), clock: enginetest.NewClock()}
	src := partial{r.src, &engine.CapabilityTable{}}
	for _, k := range []engine.Kind{fork, exec, comm, ids} {
		src.table.Kinds[k].Origin = engine.OriginKernel
	}
	src.table.Kinds[ids].Partial = engine.EventIDChange
	var err error
	if r.Engine, err = engine.New(src, r.clock.Engine(), engine.Options{}); err != nil {
		t.Fatal(err)
	}
	r.src.Push(withFields(exec, 1, 0, allButExit))
	r.onlyEvent(t)
	r.src.Push(raw(engine.KindPtrace, 1, 10))
	if p := r.onlyEvent(t).Process; p.Cached != engine.ChangeUnseen|engine.FieldsIDs|engine.FieldsNS|engine.SetOf(engine.FieldPGID, engine.FieldSID, engine.FieldCgroup, engine.FieldPPID, engine.FieldParentSignal) {
		t.Errorf("cached %s", p.Cached)
	}
}

// An exec that fails after its point of no return has no event except the EXIT by a signal. Fields
// that the EXIT lacks may then be outdated. Equal image numbers exclude such an exec; an image read
// from /proc has no number.
func TestCachedAfterFailedExec(t *testing.T) {
	image := engine.SetOf(engine.FieldComm, engine.FieldExe, engine.FieldArgs)
	for _, c := range []struct {
		name   string
		kind   engine.Kind
		known  engine.Fields
		status int32
		before uint16 // number of the image at the EXEC
		image  uint16 // at the last event
		want   engine.Fields
	}{
		{"by a signal", engine.KindExit, engine.FieldExit.Set(), 11, 0, 0, image},
		{"with a core", engine.KindExit, engine.FieldExit.Set(), 0x8b, 0, 0, image},
		{"in an unknown way", engine.KindExit, 0, 0, 0, 0, image},
		{"with a code", engine.KindExit, engine.FieldExit.Set(), 3 << 8, 0, 0, engine.FieldExe.Set()},
		{"of a number", engine.KindExit, engine.FieldExit.Set(), 11, 2, 2, engine.FieldExe.Set()},
		{"of a number, not known before", engine.KindExit, engine.FieldExit.Set(), 11, 0, 2, image},
		{"that brings it", engine.KindExit, image | engine.FieldExit.Set(), 11, 0, 0, 0},
		{"a core dump", engine.KindCoreDump, 0, 0, 0, 0, image},
	} {
		r := newRig(t, engine.Options{})
		first := withFields(exec, 1, 0, allButExit)
		first.Image = c.before
		last := withFields(c.kind, 1, 10, c.known)
		last.Image, last.Task.Exit.WaitStatus = c.image, c.status
		r.src.Push(first)
		r.onlyEvent(t)
		r.src.Push(last)
		if p := r.onlyEvent(t).Process; p.Cached&image != c.want {
			t.Errorf("%s: got cached %s, want %s", c.name, p.Cached&image, c.want)
		}
	}
}

// Without FORK and EXIT a pid belongs to another process unless a start time or a check of the pid
// proves otherwise. A process that is gone leaves the table without an event.
func TestLifeWithoutBirthAndEnd(t *testing.T) {
	r := &rig{src: new(enginetest.Source), clock: enginetest.NewClock()}
	src := partial{r.src, &engine.CapabilityTable{}}
	src.table.Kinds[exec].Origin, src.table.Kinds[comm].Origin = engine.OriginKernel, engine.OriginKernel
	state := engine.PIDUnknown
	var err error
	r.Engine, err = engine.New(src, r.clock.Engine(), engine.Options{
		CheckPID: func(uint32) (uint64, engine.PIDState) { return 0, state },
	})
	if err != nil {
		t.Fatal(err)
	}
	r.src.Push(withFields(exec, 1, 0, engine.SetOf(engine.FieldUIDs)), raw(comm, 1, 10))
	r.onlyEvent(t)
	if ev := r.onlyEvent(t); ev.Events != engine.EventSetProcTitle || ev.Process.Known.Has(engine.FieldUIDs) {
		t.Errorf("%s joined or got values of an earlier process of the pid: %s", ev.Events, ev.Process.Known)
	}
	r.src.Push(withFields(exec, 2, 20, allButExit), withFields(comm, 2, 30, allButExit))
	if ev := r.onlyEvent(t); ev.Events != engine.EventExec|engine.EventSetProcTitle {
		t.Errorf("%s of one start time are not joined", ev.Events)
	}
	const many = 3000
	state = engine.PIDGone
	for pid := range uint32(many) {
		r.src.Push(raw(exec, 10+pid, 40))
	}
	for range many {
		r.onlyEvent(t)
	}
	for range 500 {
		r.clock.Advance(100 * time.Millisecond)
		if ev, err := r.Get(); !errors.Is(err, engine.ErrNothing) {
			t.Fatal(ev, err)
		}
	}
	if st, _ := r.Stats(); st.Processes > many/2 {
		t.Errorf("got %d processes in the table", st.Processes)
	}
}

type partial struct {
	*enginetest.Source
	table *engine.CapabilityTable
}

func (p partial) Capabilities() *engine.CapabilityTable { return p.table }

// With eBPF, fields that FORK, EXEC and EXIT have are never cached, and other fields only if the
// table lists them.
func TestOrdinaryLifeCarriesLittle(t *testing.T) {
	const (
		texts  = engine.Fields(1<<engine.FieldExe | 1<<engine.FieldArgs | 1<<engine.FieldCwd | 1<<engine.FieldCgroup)
		atFork = allButExit &^ (1<<engine.FieldExe | 1<<engine.FieldArgs)
	)
	r := newRig(t, engine.Options{Matrix: new(engine.Matrix)})
	shell := withFields(exec, 9, 0, allButExit)
	birth := withFields(fork, 1, 10, atFork)
	birth.Creator = 9
	r.src.Push(shell, birth, withFields(comm, 1, 20, allButExit&^texts), withFields(exec, 1, 30, allButExit), exited(withFields(exit, 1, 40, allButExit&^texts), 0))
	r.onlyEvent(t)
	rest := engine.Fields(1<<engine.FieldExe | 1<<engine.FieldCwd)
	for _, want := range []engine.Fields{engine.FieldExe.Set(), rest, 0, rest} {
		ev := r.onlyEvent(t)
		if p := ev.Process; p.Cached != want || p.Known&allButExit != allButExit {
			t.Errorf("%s: known %s, got cached %q, want %q", ev.Events, p.Known, p.Cached, want)
		}
	}
}

// A shell sets the process group of each command: the change joins the FORK, and the EXEC too.
func TestProcessGroup(t *testing.T) {
	r := newRig(t, engine.Options{})
	group := raw(ids, 7, 20)
	group.IDChange = engine.ChangedPGID
	group.Task.Known, group.Task.PGID = engine.FieldPGID.Set(), 7
	r.src.Push(withFields(fork, 7, 10, engine.FieldPGID.Set()), group, withFields(exec, 7, 30, engine.FieldExe.Set()))
	ev := r.onlyEvent(t)
	if p := ev.Process; ev.Events != engine.EventFork|engine.EventIDChange|engine.EventExec || ev.IDChange.String() != "SETPGID" || p.PGID != 7 {
		t.Errorf("got %s of %s, group %d", ev.Events, ev.IDChange, p.PGID)
	}
}

// After a CGROUP_CHANGE the cgroup is reported with each event, until an event is lost. If the text
// of a CGROUP_CHANGE is lost, the cgroup is unknown.
func TestCgroupChange(t *testing.T) {
	r := newRig(t, engine.Options{})
	moved := func(at uint64, cgroup string) enginetest.Raw {
		ev := withFields(engine.KindCgroupChange, 7, at, engine.FieldStart.Set())
		if ev.Creator = 8; cgroup != "" {
			ev.Cgroup = []byte(cgroup)
		}
		return ev
	}
	id, start, by := strings.Repeat("a", 64), engine.FieldStart.Set(), withFields(exec, 8, 0, allButExit)
	by.Task.Start = 5
	r.src.Push(by, withFields(exec, 7, 10, allButExit), moved(20, "/docker/"+id), withFields(comm, 7, 30, start),
		gapAt(40, 41, 1), withFields(comm, 7, 50, start), moved(60, ""))
	r.onlyEvent(t)
	r.onlyEvent(t)
	writer, lost := engine.Identity{PID: 8, Start: 5}, engine.Identity{PID: 8}
	for _, want := range []struct {
		kind          engine.Events
		known, cached bool
		by            engine.Identity
	}{
		{engine.EventCgroupChange, true, false, writer}, {engine.EventSetProcTitle, true, false, engine.Identity{}},
		{kind: engine.EventGap}, {engine.EventSetProcTitle, true, true, engine.Identity{}}, {engine.EventCgroupChange, false, false, lost},
	} {
		ev := r.onlyEvent(t)
		p, f := ev.Process, engine.FieldCgroup
		if ev.Events != want.kind || p.Known.Has(f) != want.known || p.Cached.Has(f) != want.cached || ev.CgroupChangeBy != want.by {
			t.Errorf("got %s by %v, known %t, cached %t, want %+v", ev.Events, ev.CgroupChangeBy, p.Known.Has(f), p.Cached.Has(f), want)
		}
		if c, ok := p.Container(); ok && c.ID != id {
			t.Errorf("%s: got container %q", ev.Events, c.ID)
		}
	}
}

func gapAt(from, to, n uint64) enginetest.Raw {
	g := engine.Gap{Cause: engine.LossRingFull, CPU: engine.AllCPUs, From: uint64(time.Second) + from, To: uint64(time.Second) + to, Count: n}
	return enginetest.Raw{Kind: engine.KindGap, Time: g.From, Gap: g}
}

func TestGap(t *testing.T) {
	r := newRig(t, engine.Options{})
	r.src.Push(withFields(exec, 1, 0, allButExit), gapAt(10, 20, 3), raw(comm, 1, 15), raw(exit, 1, 30))
	r.onlyEvent(t)
	ev := r.onlyEvent(t)
	if ev.Events != engine.EventGap || ev.Gap.Count != 3 || ev.Process == nil || ev.Process.Known != 0 {
		t.Fatalf("the gap is %+v", ev)
	}
	want := "->0 (GAP)\n  LOST\tgap_cause=ring_full gap_count=3 gap_from=1000000010 gap_to=1000000020 gap_cpu=all\n"
	if diff := cmp.Diff(want, string(ev.AppendDump(nil))); diff != "" {
		t.Error(diff)
	}
	if js := string(ev.AppendJSON(nil, r.Clock(), "x")); !strings.Contains(js,
		`"events":["GAP"],"gap_cause":"ring_full","gap_from":1000000010,"gap_to":1000000020,"gap_count":3}`) {
		t.Error(js)
	}
	if p := r.Lookup(1); p.Cached&engine.FieldUIDs.Set() == 0 || p.Cached&engine.FieldStart.Set() != 0 {
		t.Errorf("cached in the table: got %s", p.Cached)
	}
	// Without a start time and a check of the pid, the process of this event is unknown.
	if p := r.onlyEvent(t).Process; p.Known != 0 {
		t.Errorf("after the gap: known %s", p.Known)
	}
	// With the start time it is the same process.
	r = newRig(t, engine.Options{})
	r.src.Push(withFields(exec, 1, 0, allButExit), gapAt(10, 20, 3), withFields(comm, 1, 30, engine.FieldStart.Set()|engine.FieldComm.Set()), withFields(core, 1, 40, allButExit))
	r.onlyEvent(t)
	r.onlyEvent(t)
	for _, want := range []engine.Fields{allButExit &^ engine.Fields(1<<engine.FieldStart|1<<engine.FieldComm), 0} {
		if p := r.onlyEvent(t).Process; p.Cached&^derived != want || p.Known&^derived != allButExit {
			t.Errorf("got known fields %s, cached %s, want cached %s", p.Known, p.Cached, want)
		}
	}
}

// A process whose EXIT was lost gets a GONE, also if its pid has been reused.
func TestGoneWhenReplaced(t *testing.T) {
	for _, c := range []struct {
		name string
		gap  bool
		late bool // its EXIT comes after the other process
		next func(at uint64) enginetest.Raw
		want []string
	}{
		{"born after a gap", true, false, func(at uint64) enginetest.Raw { return raw(fork, 1, at) }, []string{"0 GAP", "1 FORK", "1 GONE"}},
		{"born with no gap before", false, false, func(at uint64) enginetest.Raw { return raw(fork, 1, at) }, []string{"1 FORK"}},
		{"started later", true, false, func(at uint64) enginetest.Raw { return started(raw(core, 1, at), at) }, []string{"0 GAP", "1 CORE_DUMP", "1 GONE"}},
		{"its EXIT comes late", true, true, func(at uint64) enginetest.Raw { return raw(fork, 1, at) }, []string{"0 GAP", "1 FORK", "1 EXIT"}},
		{"perhaps the same", true, false, func(at uint64) enginetest.Raw { return raw(core, 1, at) }, []string{"0 GAP", "1 CORE_DUMP"}},
	} {
		r := newRig(t, engine.Options{})
		r.src.Push(started(raw(fork, 1, 10), 10))
		r.drain(t)
		now := r.clock.Now() - uint64(time.Second)
		if c.gap {
			r.src.Push(gapAt(now, now+10, 1))
		}
		r.src.Push(c.next(now + 20))
		var events []string
		if c.late {
			r.clock.Advance(-500 * time.Millisecond)
			events = r.drain(t)
			r.src.Push(started(exited(raw(exit, 1, now+15), 0), 10))
		}
		if diff := cmp.Diff(c.want, slices.Concat(events, r.drain(t), r.drain(t))); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

// A missing process gets no GONE if an event without a start time can be its EXIT.
func TestGoneOrPerhapsEnded(t *testing.T) {
	r := newRig(t, engine.Options{CheckPID: func(uint32) (uint64, engine.PIDState) { return 0, engine.PIDGone }})
	r.src.Push(started(raw(fork, 1, 10), 10))
	r.drain(t)
	now := r.clock.Now() - uint64(time.Second)
	r.src.Push(gapAt(now, now+10, 1))
	r.drain(t)
	r.src.Push(exited(raw(exit, 1, r.clock.Now()-uint64(time.Second)-500), 0))
	if diff := cmp.Diff([]string{"1 EXIT"}, slices.Concat(r.drain(t), r.drain(t), r.drain(t))); diff != "" {
		t.Error(diff)
	}
}

// A zombie at the start gets a GONE, unless its EXIT comes.
func TestZombieAtTheStart(t *testing.T) {
	for _, c := range []struct {
		name string
		end  bool
		want []string
	}{
		{"ended before", false, []string{"1 GONE"}},
		{"ended since", true, nil},
	} {
		r := newRig(t, engine.Options{})
		now := r.clock.Now()
		var seen engine.RawEvent
		seen.PID, seen.Kind, seen.Time = 1, engine.KindExit, now
		seen.Task.Known, seen.Task.Start, seen.Task.StartUnit = engine.FieldStart.Set(), 1, 1
		r.Learn(&seen)
		if p := r.Lookup(1); p == nil || p.Exited {
			t.Errorf("%s: in the table: got %+v", c.name, p)
		}
		if c.end {
			r.src.Push(exited(raw(exit, 1, now-uint64(time.Second)-10), 0))
		}
		if diff := cmp.Diff(c.want, slices.Concat(r.drain(t), r.drain(t))); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
		if p := r.Lookup(1); p == nil || !p.Exited || p.Inferred == c.end {
			t.Errorf("%s: at the end: got %+v", c.name, p)
		}
	}
}

// Events that a source holds back because the buffer is full come before a later GONE.
func TestGoneAfterWhatIsUnread(t *testing.T) {
	checkPID := func(pid uint32) (uint64, engine.PIDState) {
		if pid == 1 {
			return 0, engine.PIDGone
		}
		return 0, engine.PIDUnknown
	}
	// With most events skipped, the buffer becomes empty before the source does.
	some := func(ev *engine.Event) bool { return ev.Process.PID < 10 || ev.Process.PID%50 == 0 }
	r := newRig(t, engine.Options{MaxLength: 10, CheckPID: checkPID, Filter: some})
	r.src.Push(withFields(exec, 1, 0, allButExit))
	r.drain(t)
	now := r.clock.Now() - uint64(time.Second)
	r.src.Push(gapAt(now, now+10, 1))
	for i := range uint32(1000) {
		r.src.Push(withFields(exec, 2+i, now+20+uint64(i), allButExit))
	}
	gone := false
	for range 3000 {
		r.clock.Advance(10 * time.Millisecond)
		ev, err := r.Get()
		if err != nil {
			continue
		}
		if gone {
			t.Fatalf("got %s from %d ms before, after a GONE", ev.Events, (r.clock.Now()-ev.Time)/1e6)
		}
		gone = ev.Events == engine.EventGone
	}
	if !gone {
		t.Error("got no GONE of the process")
	}
}

// A missing process gets no GONE if its EXIT comes. The process can wait for a CPU after it left
// /proc, so the EXIT can have a later time.
func TestExitAfterItWasMissed(t *testing.T) {
	r := newRig(t, engine.Options{CheckPID: func(uint32) (uint64, engine.PIDState) { return 0, engine.PIDGone }})
	r.src.Push(withFields(exec, 1, 0, allButExit))
	r.drain(t)
	now := r.clock.Now() - uint64(time.Second)
	r.src.Push(gapAt(now, now+10, 1))
	r.drain(t)
	end := exited(raw(exit, 1, 0), 0)
	end.Task.Known |= engine.FieldStart.Set()
	var kinds engine.Events
	for i := range 40 {
		r.clock.Advance(100 * time.Millisecond)
		if i == 15 {
			end.Time = r.clock.Now()
			r.src.Push(end)
		}
		if ev, err := r.Get(); err == nil {
			kinds |= ev.Events
		}
	}
	if kinds != engine.EventExit {
		t.Errorf("got %s, want only EXIT", kinds)
	}
}

// If events of one process were assigned to several processes, the other fields become cached, even
// without a gap.
func TestSameProcessWithoutBirths(t *testing.T) {
	r := &rig{src: new(enginetest.Source), clock: enginetest.NewClock()}
	src := partial{r.src, &engine.CapabilityTable{}}
	for _, k := range []engine.Kind{exec, comm, ids, core} {
		src.table.Kinds[k].Origin = engine.OriginKernel
	}
	var err error
	if r.Engine, err = engine.New(src, r.clock.Engine(), engine.Options{}); err != nil {
		t.Fatal(err)
	}
	r.src.Push(withFields(exec, 1, 0, allButExit), raw(ids, 1, 10), withFields(core, 1, 20, engine.FieldStart.Set()))
	r.drain(t)
	if p := r.Lookup(1); count(r) != 1 || !p.Known.Has(engine.FieldUIDs) || !p.Cached.Has(engine.FieldUIDs) {
		t.Errorf("got %d processes, known fields %s, cached %s, want one process with cached uids", count(r), p.Known, p.Cached)
	}
}

// A process has an event after its GONE. It is checked again after the next gap.
func TestGoneAndBack(t *testing.T) {
	r := newRig(t, engine.Options{CacheGraceTime: time.Hour, CheckPID: func(uint32) (uint64, engine.PIDState) { return 0, engine.PIDGone }})
	r.src.Push(withFields(exec, 1, 0, allButExit))
	r.drain(t)
	for range 2 {
		now := r.clock.Now() - uint64(time.Second)
		r.src.Push(gapAt(now, now+10, 1))
		var lines []string
		for range 3 {
			lines = append(lines, r.drain(t)...)
		}
		if diff := cmp.Diff([]string{"0 GAP", "1 GONE"}, lines); diff != "" {
			t.Error(diff)
		}
		r.src.Push(withFields(core, 1, r.clock.Now()-uint64(time.Second), engine.FieldStart.Set()))
		if ev := r.onlyEvent(t); ev.Process.Exited || ev.Process.Inferred {
			t.Error("the process has an event and is marked as exited")
		}
	}
}

// The leader's end has an unknown status, but nothing was lost. So the leader is found: no other
// process can have its number.
func TestLeaderOfUnknownEnd(t *testing.T) {
	r := newRig(t, engine.Options{CacheGraceTime: time.Hour})
	leader, member := started(raw(fork, 1, 0), 100), raw(fork, 2, 10)
	for _, p := range []*enginetest.Raw{&leader, &member} {
		p.Task.SID, p.Task.Known = 1, p.Task.Known.With(engine.FieldSID)
	}
	r.src.Push(leader, member, started(raw(exit, 1, 20), 100))
	r.drain(t)
	if l := r.SessionLeader(r.Lookup(2)); l == nil || l.Start != 100 || !l.Exited {
		t.Errorf("the leader is %+v", l)
	}
	r.src.Push(gapAt(30, 40, 1))
	r.drain(t)
	if l := r.SessionLeader(r.Lookup(2)); l != nil {
		t.Errorf("after a gap the leader is %+v", l)
	}
}

func TestBirth(t *testing.T) {
	r := newRig(t, engine.Options{})
	child := started(raw(fork, 2, 10), 200)
	child.Task.PPID, child.Task.Known = 1, child.Task.Known.With(engine.FieldPPID)
	end := exited(started(raw(exit, 2, 30), 200), 0)
	end.Task.PPID, end.Task.Known = 9, end.Task.Known.With(engine.FieldPPID)
	r.src.Push(started(raw(fork, 1, 0), 100), child, exited(started(raw(exit, 1, 20), 100), 0), end)
	r.drain(t)
	want := engine.Birth{Parent: engine.Identity{PID: 1, Start: 100}, Known: engine.Fields(1<<engine.FieldPPID | 1<<engine.FieldStart)}
	p := r.Lookup(2)
	if p.Birth != want || p.PPID != 9 {
		t.Errorf("birth %+v, ppid %d", p.Birth, p.PPID)
	}
	if text := string(p.AppendDump(nil)); !strings.Contains(text, "\n  BRTH\tbirth_parent_pid=1 birth_parent_start=100 birth_parent_tid=?\n") {
		t.Error(text)
	}
	if js := string(p.AppendJSON(nil, r.Clock())); !strings.Contains(js, `"birth_parent_pid":1,"birth_parent_start":100`) {
		t.Error(js)
	}
	// /proc shows the current parent.
	r = newRig(t, engine.Options{})
	var snapshot engine.RawEvent
	now := withFields(fork, 5, 0, allButExit)
	now.Fill(&snapshot)
	r.Learn(&snapshot)
	if p := r.Lookup(5); p.Birth.Known != 0 || !p.Known.Has(engine.FieldPPID) {
		t.Errorf("from /proc: birth %+v, cached %s", p.Birth, p.Cached)
	}
}

// Events from before the processes were learned are not delivered. Only their births and ends are
// applied.
func TestEventsBeforeLearn(t *testing.T) {
	r := newRig(t, engine.Options{})
	learned := func(pid uint32, ms uint64) {
		var ev engine.RawEvent
		seen := withFields(fork, pid, ms, allButExit)
		seen.Fill(&ev)
		r.Learn(&ev)
	}
	learned(3, 50)
	learned(5, 70)
	r.Learn(&engine.RawEvent{Time: raw(fork, 0, 80).Time})
	birth, child := raw(fork, 3, 5), raw(fork, 9, 75)
	birth.Task.PPID, birth.Task.Known = 5, engine.FieldPPID.Set()
	child.Creator = 3
	before, since := raw(comm, 3, 10), raw(comm, 5, 72)
	before.Comm, since.Comm = []byte("before"), []byte("since")
	r.src.Push(birth, before, since, child, raw(exit, 9, 79), exited(raw(exit, 77, 79), 0))
	if err := r.Begin(); err != nil {
		t.Fatal(err)
	}
	if p := r.Lookup(3); p.Known != allButExit || p.Comm != "comm" || p.Image.Exe != "exe" || p.Birth.Parent.PID != 5 {
		t.Errorf("got known fields %s, comm %s, executable %s, birth %+v, want the values of /proc and parent 5", p.Known, p.Comm, p.Image.Exe, p.Birth)
	}
	if p := r.Lookup(5); p.Comm != "since" || p.Image.Exe != "exe" {
		t.Errorf("since: comm %s, exe %s", p.Comm, p.Image.Exe)
	}
	if p := r.Lookup(9); p == nil || !p.Exited || p.Image.Exe != "exe" {
		t.Errorf("born and ended since: got %+v", p)
	}
	r.src.Push(raw(comm, 5, 78), raw(core, 3, 80))
	if diff := cmp.Diff([]string{"3 CORE_DUMP"}, r.drain(t)); diff != "" {
		t.Error(diff)
	}
}

// Joining changes nothing: each part keeps its time and its ids.
func TestPartsOfAJoinedEvent(t *testing.T) {
	always := new(engine.Matrix)
	for head := range always {
		for next := range always[head] {
			always[head][next] = engine.JoinAlways
		}
	}
	r := newRig(t, engine.Options{Matrix: always})
	image, root := raw(exec, 1, 10), raw(ids, 1, 20)
	image.Task.Known, image.Task.Cred.UID = engine.FieldUIDs.Set(), 1000
	root.Task.Known, root.IDChange = engine.FieldUIDs.Set(), engine.ChangedUID
	r.src.Push(raw(fork, 1, 0), image, root)
	ev := r.onlyEvent(t)
	sec := uint64(time.Second)
	uids := engine.FieldUIDs.Set()
	want := []engine.Part{
		{Kind: fork, Time: sec},
		{Kind: exec, Time: sec + 10, Known: uids, Cred: engine.Credentials{UID: 1000}},
		{Kind: ids, Time: sec + 20, Known: uids, IDChange: engine.ChangedUID},
	}
	if diff := cmp.Diff(want, ev.Parts); diff != "" {
		t.Error(diff)
	}
	if text := string(ev.AppendDump(nil)); !strings.Contains(text, "\n  PART\tFORK=1000000000 EXEC=1000000010 ID_CHANGE=1000000020\n") {
		t.Error(text)
	}
	js := `"parts":[{"event":"FORK","time_monotonic":1000000000,"cpu":0},{"event":"EXEC","time_monotonic":1000000010,"cpu":0,"uid":1000,"euid":0},` +
		`{"event":"ID_CHANGE","time_monotonic":1000000020,"cpu":0}]`
	if got := string(ev.AppendJSON(nil, r.Clock(), "x")); !strings.Contains(got, js) {
		t.Error(got)
	}
}

// An event with other ids, capabilities or namespaces than the previous event joins only where an
// ID_CHANGE would join. So an image is delivered with the values that it began with.
func TestOtherIDsDoNotJoin(t *testing.T) {
	root := engine.Task{Inherited: engine.Inherited{Caps: engine.Capabilities{Permitted: 1}}, Known: engine.FieldsIDs | engine.FieldsNS | engine.SetOf(
		engine.FieldCaps, engine.FieldPGID, engine.FieldSID, engine.FieldTTY, engine.FieldLogin)}
	uid, euid, sgid, caps := root, root, root, root
	uid.Cred.UID, euid.Cred.EUID, sgid.Cred.SGID, caps.Caps.Permitted = 7, 7, 7, 0
	group, session, terminal, login, unknown := root, root, root, root, root
	group.PGID, session.SID, terminal.TTY.Minor, login.Login.Session = 7, 7, 7, 7
	unknown.PGID, unknown.Known = 7, 0
	type test struct {
		name   string
		minAgg bool
		kinds  []engine.Kind
		tasks  []engine.Task
		want   string
	}
	tests := []test{
		{"same", false, []engine.Kind{fork, exec, comm, exit}, []engine.Task{root, root, root, root}, "FORK+EXEC+EXIT+SETPROCTITLE"},
		{"unknown", false, []engine.Kind{exec, exit}, []engine.Task{root, {}}, "EXEC+EXIT"},
		{"uid of an image", false, []engine.Kind{fork, exec, exit}, []engine.Task{root, root, uid}, "FORK+EXEC EXIT"},
		{"euid of an image", false, []engine.Kind{exec, exit}, []engine.Task{root, euid}, "EXEC EXIT"},
		{"sgid of an image", false, []engine.Kind{exec, exit}, []engine.Task{root, sgid}, "EXEC EXIT"},
		{"capabilities of an image", false, []engine.Kind{exec, comm, exit}, []engine.Task{root, caps, caps}, "EXEC EXIT+SETPROCTITLE"},
		{"core dump", false, []engine.Kind{exec, core, exit}, []engine.Task{root, uid, uid}, "EXEC CORE_DUMP EXIT"},
		{"before the EXEC", false, []engine.Kind{fork, exec, exit}, []engine.Task{root, uid, uid}, "FORK EXEC+EXIT"},
		{"by the EXEC", false, []engine.Kind{fork, exec, exit}, []engine.Task{root, euid, euid}, "FORK+EXEC+EXIT"},
		{"without an EXEC", false, []engine.Kind{fork, comm, exit}, []engine.Task{root, root, uid}, "FORK+EXIT+SETPROCTITLE"},
		{"comm, minimal", true, []engine.Kind{fork, comm, comm}, []engine.Task{root, uid, uid}, "FORK SETPROCTITLE"},
		{"group of an image", false, []engine.Kind{fork, exec, exit}, []engine.Task{root, root, group}, "FORK+EXEC EXIT"},
		{"group of a command", false, []engine.Kind{fork, exec, exit}, []engine.Task{root, group, group}, "FORK+EXEC+EXIT"},
		{"group without an EXEC", false, []engine.Kind{fork, exit}, []engine.Task{root, group}, "FORK+EXIT"},
		{"session of an image", false, []engine.Kind{exec, exit}, []engine.Task{root, session}, "EXEC EXIT"},
		{"terminal of an image", false, []engine.Kind{exec, exit}, []engine.Task{root, terminal}, "EXEC EXIT"},
		{"login of an image", false, []engine.Kind{exec, exit}, []engine.Task{root, login}, "EXEC EXIT"},
		{"unknown group", false, []engine.Kind{exec, exit}, []engine.Task{root, unknown}, "EXEC+EXIT"},
	}
	for i, ns := range []engine.Namespaces{{UTS: 7}, {IPC: 7}, {Mnt: 7}, {Net: 7}, {User: 7}, {Cgroup: 7}, {Time: 7}} {
		other := root
		other.NS = ns
		tests = append(tests, test{fmt.Sprint("namespace ", i), false, []engine.Kind{exec, exit}, []engine.Task{root, other}, "EXEC EXIT"})
	}
	for _, c := range tests {
		r := newRig(t, engine.Options{MinAgg: c.minAgg})
		for i, kind := range c.kinds {
			ev := raw(kind, 1, uint64(i))
			ev.Task = c.tasks[i]
			r.src.Push(ev)
		}
		if got := strings.ReplaceAll(strings.Join(r.drain(t), " "), "1 ", ""); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

// A full buffer delivers events early. A process that was found gone before these events gets its
// GONE after them.
func TestGoneIsNeverLate(t *testing.T) {
	r := newRig(t, engine.Options{MaxLength: 2, CheckPID: func(uint32) (uint64, engine.PIDState) { return 0, engine.PIDGone }})
	r.src.Push(raw(fork, 1, 0))
	r.drain(t)
	now := r.clock.Now() - uint64(time.Second)
	r.src.Push(gapAt(now, now+10, 1))
	for n := uint64(1); n < 400; n++ {
		r.clock.Advance(10 * time.Millisecond)
		for i := range uint64(3) {
			r.src.Push(raw(fork, uint32(10*n+i), r.clock.Now()-uint64(time.Second)+i))
		}
		for {
			ev, err := r.Get()
			if err != nil {
				break
			}
			if ev.Events == engine.EventGone {
				if st, _ := r.Stats(); st.Late != 0 || ev.Process.PID != 1 {
					t.Errorf("process %d is gone: got %d late events, want none", ev.Process.PID, st.Late)
				}
				return
			}
		}
	}
	t.Error("got no GONE of the process")
}

// A child inherits the login that its creator had. It does not inherit a cached login that was read
// after the fork.
func TestInheritedLogin(t *testing.T) {
	for _, c := range []struct {
		name   string
		cached bool
		read   uint64
		want   bool
	}{
		{"from the event", false, 0, true},
		{"read before the fork", true, 15, true},
		{"read after the fork", true, 25, false},
	} {
		r := newRig(t, engine.Options{})
		image, child := raw(exec, 1, 10), raw(fork, 2, 20)
		image.Task.Known, image.Task.Login.UID = engine.FieldLogin.Set(), 7
		if c.cached {
			image.Task.Cached, image.Read = image.Task.Known, raw(exec, 1, c.read).Time
		}
		child.Creator = 1
		r.src.Push(image, child)
		r.drain(t)
		if got := r.Lookup(2).Known.Has(engine.FieldLogin); got != c.want {
			t.Errorf("%s: login is known: got %v, want %v", c.name, got, c.want)
		}
	}
}
