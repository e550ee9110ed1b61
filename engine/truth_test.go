package engine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/engine/enginetest"
)

// step is the longest time between two changes in the world. It exceeds /proc's unit of start
// times, so that two processes of one pid mostly have different start times.
const step = 11 * time.Millisecond

// state is the true state of a process, valid from a time on.
type state struct {
	since                                uint64
	ppid, uid                            uint32
	pgid, sid                            uint32
	tty                                  engine.TTY
	entry                                entry
	comm, filename, cmdline, cwd, cgroup string
}

// entry is an entry leader and its type.
type entry struct {
	by    engine.EntryType
	pid   uint32
	start uint64
}

// ownEntry returns the entry type of a session leader that executes its file.
func ownEntry(s, of *state) engine.EntryType {
	file, tty, parent := s.filename, s.tty, of.filename
	is := func(path string, names string) bool {
		return strings.Contains(names, path[strings.LastIndex(path, "/"):]+";")
	}
	switch {
	case tty == engine.TTY{Major: 4, Minor: 64}, tty == engine.TTY{Major: 4, Minor: 1} && is(file, "/login;"):
		return engine.EntryTerminal
	case is(file, "/pause;/runc;/containerd-shim-runc-v2;"):
		return engine.EntryUnknown
	case tty == engine.TTY{Major: 136} && is(parent, "/ssm-session-worker;"):
		return engine.EntrySSM
	case is(parent, "/sshd;/sshd-session;") && !is(file, "/sshd;/sshd-session;"):
		return engine.EntrySSHD
	case is(parent, "/runc;/containerd-shim-runc-v2;"), strings.HasPrefix(s.cgroup, "/lxc/") && s.cgroup != of.cgroup:
		return engine.EntryContainer
	}
	return engine.EntryUnknown
}

var (
	files = []string{"/sbin/sshd", "/lib/sshd-session", "/bin/login", "/pause", "/bin/runc", "/bin/containerd-shim-runc-v2", "/bin/ssm-session-worker"}
	lxc   = []string{"/lxc/a", "/lxc/b"} // the cgroups of containers
	ttys  = []engine.TTY{{}, {Major: 4, Minor: 1}, {Major: 4, Minor: 64}, {Major: 136}}
)

// being is a process of the world.
type being struct {
	pid, parent uint32
	start       uint64
	parentStart uint64
	end         uint64 // 0 while it runs
	states      []state
}

func (l *being) at(time uint64) *state {
	for i := range slices.Backward(l.states) {
		if l.states[i].since <= time {
			return &l.states[i]
		}
	}
	return &l.states[0]
}

// world simulates processes with random events, and has the ground truth about them.
type world struct {
	rnd   *rand.Rand
	now   uint64
	next  int // number for the next unique name
	lives []*being
	// bare is set if events have few fields and seldom a start time, like the events of the
	// proc connector.
	bare bool
	// unit is the unit to which start times are rounded, pace the longest time between two
	// changes.
	unit uint64
	pace time.Duration
	// disordered is set if some events come later than the hold time. Then only an exact start
	// time identifies the process of an event.
	disordered bool
}

func (w *world) living(pid uint32) *being {
	for _, l := range w.lives {
		if l.pid == pid && l.end == 0 {
			return l
		}
	}
	return nil
}

func (w *world) name(what string) string {
	w.next++
	return fmt.Sprint(what, w.next)
}

// taken reports whether a running process has the pid, or is in a session or group with this
// number.
func (w *world) taken(pid uint32) bool {
	return slices.ContainsFunc(w.lives, func(l *being) bool {
		s := l.at(w.now)
		return l.end == 0 && (l.pid == pid || s.sid == pid || s.pgid == pid)
	})
}

// step makes one change, and returns its event if it has one.
func (w *world) step() (ev enginetest.Raw, told bool) {
	w.now += uint64(w.pace)
	var alive []*being
	for _, l := range w.lives {
		if l.end == 0 {
			alive = append(alive, l)
		}
	}
	l := alive[w.rnd.IntN(len(alive))]
	s := *l.at(w.now)
	s.since = w.now
	change := func() { l.states = append(l.states, s) }
	switch w.rnd.IntN(12) {
	case 0, 1:
		pid := uint32(2 + w.rnd.IntN(6)) // few pids, so that they are reused
		if w.taken(pid) {
			return ev, false
		}
		c := &being{pid: pid, parent: l.pid, start: w.now, parentStart: l.start}
		s.ppid = l.pid
		c.states = []state{s}
		w.lives = append(w.lives, c)
		ev = w.event(engine.KindFork, c, engine.Fields(1<<engine.FieldPPID))
		ev.Creator = l.pid
		return ev, true
	case 2:
		s.comm, s.filename, s.cmdline = w.name("comm"), w.name("/bin/"), w.name("arg")
		if w.rnd.IntN(2) == 0 {
			s.filename = files[w.rnd.IntN(len(files))]
		}
		if parent := w.living(s.ppid); s.sid == l.pid && l.pid != 1 {
			if by := ownEntry(&s, parent.at(w.now)); by != engine.EntryUnknown {
				s.entry = entry{by, l.pid, l.start}
			}
		}
		change()
		return w.event(engine.KindExec, l, 1<<engine.FieldExe), true
	case 3:
		if l.pid == 1 {
			return ev, false
		}
		l.end = w.now
		var reaper uint32
		for _, c := range w.lives {
			if c.end == 0 && c.at(w.now).ppid == l.pid {
				n := *c.at(w.now)
				n.since, n.ppid = w.now, 1
				c.states = append(c.states, n)
				if reaper = 1; w.rnd.IntN(4) == 0 {
					reaper = engine.UnknownReaper
				}
			}
		}
		ev = w.event(engine.KindExit, l, 0)
		ev.Creator = reaper
		ev.Task.Known |= engine.FieldExit.Set()
		ev.Task.Exit = engine.Exit{WaitStatus: int32(l.start & 0xff00), Time: w.now}
		return ev, true
	case 4:
		w.next++
		s.uid = uint32(w.next)
		change()
		ev = w.event(engine.KindIDChange, l, 1<<engine.FieldUIDs)
		ev.IDChange = engine.ChangedUID
		return ev, true
	case 5:
		s.comm = w.name("comm")
		change()
		return w.event(engine.KindSetProcTitle, l, 1<<engine.FieldComm), true
	case 6:
		s.cwd = w.name("/dir")
	case 7:
		if s.cgroup = w.name("/cgroup"); w.rnd.IntN(2) == 0 {
			s.cgroup = lxc[w.rnd.IntN(len(lxc))]
		}
		change()
		ev = w.event(engine.KindCgroupChange, l, 0)
		ev.Creator = uint32(1 + w.rnd.IntN(7))
		return ev, true
	case 9, 10:
		if s.pgid == l.pid {
			if s.sid == l.pid {
				s.tty = ttys[w.rnd.IntN(len(ttys))]
			}
			break
		}
		if w.rnd.IntN(3) == 0 {
			s.pgid = l.pid
			change()
			ev = w.event(engine.KindIDChange, l, 0)
			ev.IDChange = engine.ChangedPGID
			return ev, true
		}
		s.sid, s.pgid, s.tty = l.pid, l.pid, engine.TTY{}
		change()
		ev = w.event(engine.KindIDChange, l, 0)
		ev.IDChange = engine.ChangedSID
		return ev, true
	case 8:
		return w.event(engine.KindCoreDump, l, 0), true
	}
	change()
	return ev, false
}

// event returns the event of l's newest state, with the fields in must and some others.
func (w *world) event(k engine.Kind, l *being, must engine.Fields) enginetest.Raw {
	has := engine.Fields(w.rnd.Uint32())
	if w.bare {
		has &= engine.Fields(w.rnd.Uint32())
		has &= engine.Fields(w.rnd.Uint32())
	}
	if w.disordered {
		must |= engine.FieldStart.Set()
	}
	r := l.raw(k, w.now, has|must)
	r.Task.Start, r.Task.StartUnit = l.start/w.unit*w.unit, w.unit
	return r
}

// raw returns an event with the fields in has and their values at a time.
func (l *being) raw(k engine.Kind, now uint64, has engine.Fields) enginetest.Raw {
	s := l.at(now)
	r := enginetest.Raw{Kind: k, PID: l.pid, Time: now}
	r.Task.Known = has & engine.Fields(1<<engine.FieldStart|1<<engine.FieldPPID|1<<engine.FieldUIDs|
		1<<engine.FieldSID|1<<engine.FieldPGID|1<<engine.FieldTTY)
	r.Task.SID, r.Task.PGID, r.Task.TTY = s.sid, s.pgid, s.tty
	r.Task.Start, r.Task.StartUnit, r.Task.PPID, r.Task.Cred.UID = l.start, 1, s.ppid, s.uid
	for f, text := range map[engine.Field]struct {
		to    *[]byte
		value string
	}{
		engine.FieldComm: {&r.Comm, s.comm}, engine.FieldExe: {&r.Exe, s.filename}, engine.FieldArgs: {&r.Args, s.cmdline},
		engine.FieldCwd: {&r.Cwd, s.cwd}, engine.FieldCgroup: {&r.Cgroup, s.cgroup},
	} {
		if has.Has(f) {
			*text.to = []byte(text.value)
		}
	}
	return r
}

// find returns the being of a pid at a time.
func (w *world) find(pid uint32, at uint64) *being {
	for _, l := range w.lives {
		if l.pid == pid && l.start <= at && (l.end == 0 || at <= l.end) {
			return l
		}
	}
	return nil
}

// judge returns the wrong values of an event that are not marked as cached.
func (w *world) judge(ev *engine.Event) (defects []string) {
	p := ev.Process
	lie := func(f engine.Field, got, want any) {
		if got != want {
			defects = append(defects, fmt.Sprintf("%d %s at %d: %s: got %v, want %v", p.PID, ev.Events, ev.Time, f, got, want))
		}
	}
	at := ev.Time
	if len(ev.Parts) > 0 {
		at = ev.Parts[len(ev.Parts)-1].Time
	}
	l := w.find(p.PID, at)
	if ev.Events == engine.EventGone {
		l = w.find(p.PID, p.AsOf()) // not the next process of the pid
		if l != nil && (l.end == 0 || l.end > at) {
			defects = append(defects, fmt.Sprintf("%d is marked as exited at %d, but runs", p.PID, at))
		}
		return defects
	}
	if l == nil && w.disordered && ev.Events == engine.EventReparent {
		return nil // its EXIT comes late
	}
	if l == nil {
		return []string{fmt.Sprintf("%d %s at %d: no such process", p.PID, ev.Events, at)}
	}
	if p.Known.Has(engine.FieldStart) {
		lie(engine.FieldStart, p.Start, l.start/p.StartUnit*p.StartUnit)
	}
	s, sure, possible := l.at(at), p.Known&^p.Cached, p.Cached&p.Known
	if w.disordered { // inherited values may be of another time, but not of another process
		sure, possible = 0, p.Known&^engine.FieldArgs.Set()
	}
	states := slices.Clone(l.states)
	for of := l; of.pid != 1; states = append(states, of.states...) {
		of = w.find(of.parent, of.start)
	}
	if sure.Has(engine.FieldPPID) {
		lie(engine.FieldPPID, p.PPID, s.ppid)
	}
	if sure.Has(engine.FieldSID) {
		lie(engine.FieldSID, p.SID, s.sid)
	}
	if sure.Has(engine.FieldTTY) {
		lie(engine.FieldTTY, p.TTY, s.tty)
	}
	if sure.Has(engine.FieldEntryLeader) {
		lie(engine.FieldEntryLeader, entry{p.EntryType, p.EntryLeader.PID, p.EntryLeader.Start / engine.ProcStartUnit},
			entry{s.entry.by, s.entry.pid, s.entry.start / engine.ProcStartUnit})
	}
	if sure.Has(engine.FieldUIDs) {
		lie(engine.FieldUIDs, p.Cred.UID, s.uid)
	}
	if sure.Has(engine.FieldComm) {
		lie(engine.FieldComm, p.Comm, s.comm)
	}
	if sure.Has(engine.FieldExe) {
		lie(engine.FieldExe, p.Image.Exe, s.filename)
	}
	if sure.Has(engine.FieldArgs) {
		lie(engine.FieldArgs, string(p.Image.Args), s.cmdline)
	}
	if sure.Has(engine.FieldCwd) {
		lie(engine.FieldCwd, p.Cwd, s.cwd)
	}
	if sure.Has(engine.FieldCgroup) {
		lie(engine.FieldCgroup, p.Cgroup, s.cgroup)
	}
	// A cached value is a value of the process or an ancestor, and not of another process that
	// had the pid.
	had := func(f engine.Field, value string, of func(*state) string) {
		if possible.Has(f) && !slices.ContainsFunc(states, func(s state) bool { return of(&s) == value }) {
			lie(f, value, "a value that it had")
		}
	}
	had(engine.FieldComm, p.Comm, func(s *state) string { return s.comm })
	had(engine.FieldArgs, string(p.Image.Args), func(s *state) string { return s.cmdline })
	had(engine.FieldCwd, p.Cwd, func(s *state) string { return s.cwd })
	had(engine.FieldUIDs, fmt.Sprint(p.Cred.UID), func(s *state) string { return fmt.Sprint(s.uid) })
	if p.Birth.Known.Has(engine.FieldPPID) {
		lie(engine.FieldPPID, p.Birth.Parent.PID, l.parent)
	}
	if p.Birth.Known.Has(engine.FieldStart) && !w.disordered {
		lie(engine.FieldStart, p.Birth.Parent.Start/engine.ProcStartUnit, l.parentStart/engine.ProcStartUnit)
	}
	for _, part := range ev.Parts {
		if part.Known.Has(engine.FieldUIDs) && !part.Cached.Has(engine.FieldUIDs) && !w.disordered {
			lie(engine.FieldUIDs, part.Cred.UID, l.at(part.Time).uid)
		}
	}
	return defects
}

// judgeLineage returns the defects of the leaders and ancestors of an event's process, and counts
// the checks in found.
func (w *world) judgeLineage(r *rig, ev *engine.Event, found map[string]int) (defects []string) {
	p := ev.Process
	l := w.find(p.PID, p.AsOf())
	if l == nil || ev.Thread || ev.Events == engine.EventGone {
		return nil
	}
	is := func(what string, got *engine.Process, want *being) {
		if want == nil {
			defects = append(defects, fmt.Sprintf("%s of %d at %d: got %d with start %d, want none", what, p.PID, p.AsOf(), got.PID, got.Start))
		} else if got.PID != want.pid || got.Known.Has(engine.FieldStart) && got.Start/engine.ProcStartUnit != want.start/engine.ProcStartUnit {
			defects = append(defects, fmt.Sprintf("%s of %d at %d: got %d with start %d, want %d with start %d", what, p.PID, p.AsOf(), got.PID, got.Start, want.pid, want.start))
		}
		found[what]++
	}
	// madeBy returns the leader of a group or session at a time: the last process that had its
	// number.
	madeBy := func(number uint32, at uint64) (who *being) {
		for _, o := range w.lives {
			if o.pid == number && o.start <= at {
				who = o
			}
		}
		return who
	}
	if leader := r.SessionLeader(p); leader != nil && !p.Cached.Has(engine.FieldSID) {
		is("session leader", leader, madeBy(l.at(p.AsOf()).sid, p.AsOf()))
	}
	if leader := r.GroupLeader(p); leader != nil {
		want := madeBy(p.PGID, p.AsOf())
		for _, s := range l.states { // a cached one may be of an earlier time
			if led := madeBy(s.pgid, s.since); p.Cached.Has(engine.FieldPGID) && led != nil && s.pgid == p.PGID && led.start/engine.ProcStartUnit == leader.Start/engine.ProcStartUnit {
				want = led
			}
		}
		is("group leader", leader, want)
	}
	ancestors, whole := r.Ancestors(p)
	for _, a := range ancestors {
		parent := w.find(l.parent, l.start)
		if a.PID == 1 && p.Birth.Known == 0 {
			parent = w.lives[0] // it may have adopted the process
		}
		if is("ancestor", a, parent); parent == nil {
			return defects
		}
		p, l = a, parent
	}
	if whole != (l.pid == 1) {
		defects = append(defects, fmt.Sprintf("ancestors end with %d, whole %v", l.pid, whole))
	}
	if whole {
		found["whole"]++
	}
	return defects
}

// judgePrinted returns the values printed of the leaders and ancestors of an event's process that
// were wrong when the event began. A process that leads itself has the values of the event.
func (w *world) judgePrinted(r *rig, ev *engine.Event, found map[string]int) (defects []string) {
	type relative struct {
		PID       uint32
		Start     uint64 `json:"start_boottime"`
		Comm, Exe string
		Cached    []string
		Exited    bool
	}
	var o struct {
		Session   *relative `json:"session_leader"`
		Group     *relative `json:"group_leader"`
		Ancestors []*relative
	}
	if err := json.Unmarshal(r.AppendJSON(nil, ev), &o); err != nil {
		return []string{err.Error()}
	}
	for _, p := range append(o.Ancestors, o.Session, o.Group) {
		i := slices.IndexFunc(w.lives, func(l *being) bool {
			return p != nil && l.pid == p.PID && l.start/engine.ProcStartUnit == p.Start/engine.ProcStartUnit
		})
		if i < 0 {
			continue // the start time is unknown
		}
		l := w.lives[i]
		at := ev.Time
		if p.PID == ev.Process.PID && l == w.find(p.PID, ev.Process.AsOf()) {
			at = ev.Process.AsOf()
		}
		s := l.at(at)
		if p.Exited && (l.end == 0 || l.end > at) ||
			p.Comm != "" && p.Comm != s.comm && !slices.Contains(p.Cached, "comm") ||
			p.Exe != "" && p.Exe != s.filename && !slices.Contains(p.Cached, "exe") {
			defects = append(defects, fmt.Sprintf("%d %s at %d: printed %+v of a process that ends at %d: %+v", ev.Process.PID, ev.Events, at, *p, l.end, *s))
		}
		for _, later := range l.states { // a cached value is of an earlier time
			unique := !slices.Contains(files, later.filename)
			if later.since > at && (p.Comm == later.comm && later.comm != s.comm || unique && p.Exe == later.filename && later.filename != s.filename) {
				defects = append(defects, fmt.Sprintf("%d at %d: printed %+v, which is true only from %d on", ev.Process.PID, at, *p, later.since))
			}
		}
		if p.Exited {
			found["printed as ended"]++
		}
	}
	return defects
}

// judgeTable returns the defects of the table after an event: the youngest process of the pid is
// wrong, the event's process has ended, or a process is in the table twice.
func (w *world) judgeTable(r *rig, ev *engine.Event) (defects []string) {
	p := ev.Process
	id, ok := p.Identity()
	l := w.find(p.PID, p.AsOf())
	if !ok || l == nil || ev.Events&(engine.EventGone|engine.EventExit) != 0 {
		return nil
	}
	reused := slices.ContainsFunc(w.lives, func(o *being) bool { return o.pid == l.pid && o.start > l.start })
	if p.Exited && !reused {
		defects = append(defects, fmt.Sprintf("%d is marked as exited before %d", p.PID, p.AsOf()))
	}
	if youngest := r.Lookup(p.PID); youngest != p && l.end == 0 {
		defects = append(defects, fmt.Sprintf("%d at %d: Lookup finds a process with known %s", p.PID, p.AsOf(), youngest.Known))
	}
	for o := range r.Processes() {
		if other, ok := o.Identity(); w.pace == step && ok && o != p && other.PID == id.PID && other.Start/engine.ProcStartUnit == id.Start/engine.ProcStartUnit {
			defects = append(defects, fmt.Sprintf("%d of %d is in the table twice", id.PID, id.Start))
		}
	}
	return defects
}

// judgeRest returns the processes that the table has as running, but that have ended, or share
// their pid.
func (w *world) judgeRest(r *rig) (defects []string) {
	living := make(map[uint32]int)
	for p := range r.Processes() {
		if p.Exited {
			continue
		}
		living[p.PID]++
		start, state := w.checkPID(p.PID)
		if known := p.Known.Has(engine.FieldStart); known && (state == engine.PIDGone || start != p.Start/engine.ProcStartUnit*engine.ProcStartUnit) || living[p.PID] > 1 {
			defects = append(defects, fmt.Sprintf("%d with start %d is running in the table, known %s", p.PID, p.Start, p.Known))
		}
	}
	return defects
}

// checkPID returns what /proc shows of a pid now.
func (w *world) checkPID(pid uint32) (uint64, engine.PIDState) {
	if l := w.living(pid); l != nil {
		return l.start / engine.ProcStartUnit * engine.ProcStartUnit, engine.PIDAlive
	}
	return 0, engine.PIDGone
}

// TestNothingThatIsNotCachedIsWrong simulates processes, loses and delays events, starts in the
// middle, rounds start times, and compares every delivered event with ground truth. A value that is
// known and not cached must be right at the event's last part; a cached value must have been right
// before. Processes that have ended must leave the table.
func TestNothingThatIsNotCachedIsWrong(t *testing.T) {
	var delivered, lost, sure, cached, gone int
	found := make(map[string]int)
	for seed := range uint64(400) {
		rnd := rand.New(rand.NewPCG(seed, 11))
		w := &world{rnd: rnd, now: uint64(time.Second), bare: rnd.IntN(2) == 0, unit: 1, pace: step, disordered: rnd.IntN(4) == 0}
		if rnd.IntN(3) == 0 {
			// Several processes of a pid have one start time in /proc. Their order
			// distinguishes them, unless events are lost or precede the start.
			w.pace = step / 8
		}
		if !w.disordered && rnd.IntN(3) == 0 {
			w.unit = engine.ProcStartUnit
		}
		w.lives = []*being{{pid: 1, start: 1, states: []state{{comm: "init", filename: "/init", cwd: "/", cgroup: "/", sid: 1, pgid: 1, entry: entry{engine.EntryInit, 1, 1}}}}}
		opts := engine.Options{HoldTime: 50 * step, MaxLength: 1 + rnd.IntN(100)}
		if rnd.IntN(4) > 0 {
			opts.CheckPID = w.checkPID
		}
		switch rnd.IntN(3) {
		case 1:
			opts.MinAgg = true
		case 2:
			opts.Matrix = new(engine.Matrix)
		}
		r := newRig(t, opts, engine.FieldCgroup)
		for range rnd.IntN(100) { // before the source was open
			if w.pace == step {
				w.step()
			}
		}
		r.clock.Advance(time.Duration(w.now - r.clock.Now()))
		scan, gapEnds := rnd.IntN(50), -1
		if w.pace < step {
			scan = 0
		}
		var gap engine.Gap
		var held, late []enginetest.Raw // a gap comes with what follows it
		receive := func() {
			for {
				ev, err := r.Get()
				if errors.Is(err, engine.ErrNothing) {
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if ev.Events == engine.EventGap {
					continue
				}
				delivered++
				if ev.Events == engine.EventGone {
					gone++
				}
				for f := range engine.Field(engine.NumFields) {
					if ev.Process.Cached.Has(f) {
						cached++
					} else if ev.Process.Known.Has(f) {
						sure++
					}
				}
				if sure := ev.Process.Known &^ ev.Process.Cached; sure.Has(engine.FieldEntryLeader) {
					found[ev.Process.EntryType.String()]++
				}
				defects := w.judge(ev)
				if !w.disordered {
					defects = append(defects, w.judgeTable(r, ev)...)
				}
				// At other paces a rounded start time is ambiguous.
				if !w.disordered && w.pace == step {
					defects = slices.Concat(defects, w.judgeLineage(r, ev, found), w.judgePrinted(r, ev, found))
				}
				if len(defects) > 0 {
					t.Errorf("seed %d: %v", seed, defects)
				}
			}
		}
		for n := range 500 {
			ev, told := w.step()
			r.clock.Advance(time.Duration(w.now - r.clock.Now()))
			if n == scan {
				for _, l := range w.lives {
					if l.end == 0 {
						var raw engine.RawEvent
						d := l.raw(engine.KindFork, w.now, engine.AllFields)
						d.Task.Start, d.Task.StartUnit = l.start/engine.ProcStartUnit*engine.ProcStartUnit, engine.ProcStartUnit
						d.Fill(&raw)
						r.Learn(&raw)
					}
				}
			}
			if gapEnds < 0 && rnd.IntN(60) == 0 && w.pace == step {
				gapEnds = n + rnd.IntN(40)
				gap = engine.Gap{Cause: engine.LossRingFull, CPU: engine.AllCPUs, From: w.now}
			}
			switch {
			case gapEnds >= 0 && told && rnd.IntN(3) > 0:
				gap.Count++
				lost++
			case told && gapEnds >= 0:
				held = append(held, ev)
			case told && w.disordered && rnd.IntN(10) == 0:
				late = append(late, ev)
			case told:
				r.src.Push(ev)
			}
			if rnd.IntN(60) == 0 {
				r.src.Push(late...)
				late = nil
			}
			if n == gapEnds {
				gapEnds = -1
				gap.To = w.now
				r.src.Push(enginetest.Raw{Kind: engine.KindGap, Time: gap.From, Gap: gap})
				r.src.Push(held...)
				held = nil
			}
			if n < scan || gapEnds >= 0 {
				continue
			}
			receive()
		}
		if gapEnds >= 0 {
			gap.To = w.now
			r.src.Push(append([]enginetest.Raw{{Kind: engine.KindGap, Time: gap.From, Gap: gap}}, held...)...)
		}
		for range 20 {
			r.clock.Advance(time.Second)
			receive()
		}
		if opts.CheckPID != nil && !w.disordered {
			if defects := w.judgeRest(r); len(defects) > 0 {
				t.Errorf("seed %d at the end: %v", seed, defects)
			}
		}
	}
	t.Logf("%d events delivered, %d lost, %d processes found gone; %d fields sure, %d cached; %v", delivered, lost, gone, sure, cached, found)
	if gone == 0 || lost == 0 || sure < cached || len(found) != 10 {
		t.Error("too few checks were made")
	}
}
