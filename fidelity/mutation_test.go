package fidelity

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/score"
	"github.com/quark-linux/quark/fidelity/truth"
	"github.com/quark-linux/quark/internal/thorough"
)

// delivery has the events that one backend delivered for processes.
type delivery struct {
	*score.Delivered
	processes []*truth.Process
	lost      uint64
}

// clone returns a copy of d, and the copy's i-th joined or single event. Only this event may be
// changed, as the others share memory with d.
func (d *delivery) clone(i int, joined bool) (*delivery, *score.Seen) {
	w := *d.Delivered
	list := &w.Single
	if joined {
		list = &w.Joined
	}
	*list = slices.Clone(*list)
	s := &(*list)[i]
	s.Process, s.Parts = s.Process.Clone(), slices.Clone(s.Parts)
	return &delivery{&w, d.processes, d.lost}, s
}

// processOf returns the process of an event, nil for an unrelated process.
func (d *delivery) processOf(s *score.Seen) *truth.Process {
	for _, l := range d.processes {
		if l.PID == int(s.Process.PID) && l.Born() <= s.Time && s.Time <= l.Ended() {
			return l
		}
	}
	return nil
}

// eventOf returns the event that s reports, and its index in its process. It is nil for joined
// events, events of threads and events that the backend may omit.
func (d *delivery) eventOf(s *score.Seen) (e *truth.Event, i int) {
	if l := d.processOf(s); l != nil && !s.Thread && len(s.Parts) == 1 {
		i = slices.IndexFunc(l.Events, func(e *truth.Event) bool {
			return e.Kind.Events() == s.Events && e.Earliest <= s.Time && s.Time <= e.Latest
		})
		if i >= 0 && !l.Events[i].Optional && l.Born() > d.Opened {
			return l.Events[i], i
		}
	}
	return nil, 0
}

// reported returns the fields of an event that are known, not cached, and recorded by the scenario.
func (d *delivery) reported(s *score.Seen) engine.Fields {
	e, _ := d.eventOf(s)
	if e == nil {
		return 0
	}
	recorded := e.State.Known | e.Inside.Known | engine.FieldStart.Set()
	if s.Events == engine.EventExit {
		recorded |= engine.FieldExit.Set()
	}
	return recorded & s.Process.Known &^ s.Process.Cached
}

// changeLeader changes the session or group leader of an event's process, and reports whether the
// original leader was a live process of d.
func (d *delivery) changeLeader(s *score.Seen, f engine.Field, change func(**engine.Identity)) bool {
	i := map[engine.Field]int{engine.FieldSID: 0, engine.FieldPGID: 1}[f]
	if l := d.processOf(s); !d.reported(s).Has(f) || s.Leaders == nil || s.Leaders[i] == nil || s.Leaders[i].Start == 0 || l == nil {
		return false
	}
	leaders := *s.Leaders
	s.Leaders = &leaders
	own := d.processOf(s)
	found := slices.ContainsFunc(d.processes, func(l *truth.Process) bool {
		until := l.Ended()
		if last := l.Events[len(l.Events)-1]; last.Kind == engine.KindExit && l != own {
			until = last.Earliest // later the leader may have left the table
		}
		return l.PID == int(leaders[i].PID) && d.Opened <= l.Born() && l.Born() <= s.Time && s.Time <= until
	})
	change(&leaders[i])
	return found
}

// set sets a field from a ground truth text.
func set(p *engine.Process, f engine.Field, text string) {
	c, ns := &p.Caps, &p.NS
	into, format := []any(nil), ""
	switch f {
	case engine.FieldComm:
		p.Comm = text
	case engine.FieldExe:
		p.Image.Exe = text
	case engine.FieldExecPath:
		p.ExecPath = text
	case engine.FieldCwd:
		p.Cwd = text
	case engine.FieldCgroup:
		p.Cgroup = text
	case engine.FieldArgs:
		p.Image.Args = []byte(text)
	case engine.FieldEnviron:
		p.Environ = []byte(text)
	case engine.FieldPrivileges:
		for p.Privileges = 7; p.Privileges.String() != text; p.Privileges-- {
		}
	case engine.FieldEntryLeader:
		way, pid, _ := strings.Cut(text, " ")
		for p.EntryType = engine.EntryTerminal; p.EntryType.String() != way; p.EntryType-- {
		}
		into, text, format = []any{&p.EntryLeader.PID}, pid, "%d"
	case engine.FieldTTY:
		into, format = []any{&p.TTY.Major, &p.TTY.Minor}, "%d:%d"
	case engine.FieldExeFile:
		x := &p.ExeFile
		_, text, _ = strings.Cut(text, " ") // all files are on device 0:0
		into, format = []any{&x.Inode, &x.Ctime, &x.Mode, &x.UID, &x.GID, &x.Removed}, "%d %d %o %d %d %t"
	case engine.FieldStdio:
		words := strings.Split(text, " ") // all files are on device 0:0
		for i := range p.Stdio {
			x := &p.Stdio[i]
			for x.Type = engine.StreamOther; x.Type.String() != words[4*i]; x.Type-- {
			}
			for x.Family = 0; x.Family.String() != words[4*i+1]; x.Family++ {
			}
			fmt.Sscan(words[4*i+3], &x.Inode)
		}
	case engine.FieldPIDNS:
		into, format = []any{&ns.PID, &p.NSPID}, "%d %d"
	case engine.FieldLogin:
		into, format = []any{&p.Login.UID, &p.Login.Session}, "%d %d"
	case engine.FieldCaps:
		into, format = []any{&c.Inheritable, &c.Permitted, &c.Effective, &c.Bounding, &c.Ambient}, "%x %x %x %x %x"
	default:
		into = map[engine.Field][]any{
			engine.FieldPPID: {&p.PPID}, engine.FieldPGID: {&p.PGID}, engine.FieldSID: {&p.SID},
			engine.FieldParentSignal: {&p.ParentSignal}, engine.FieldBirthParentTID: {&p.ParentTID},
			engine.FieldUIDs: {&p.Cred.UID, &p.Cred.EUID}, engine.FieldSUID: {&p.Cred.SUID},
			engine.FieldGIDs: {&p.Cred.GID, &p.Cred.EGID}, engine.FieldSGID: {&p.Cred.SGID},
			engine.FieldUTSNS: {&ns.UTS}, engine.FieldIPCNS: {&ns.IPC}, engine.FieldMntNS: {&ns.Mnt}, engine.FieldNetNS: {&ns.Net},
			engine.FieldUserNS: {&ns.User}, engine.FieldCgroupNS: {&ns.Cgroup}, engine.FieldTimeNS: {&ns.Time},
			engine.FieldNoNewPrivs: {&p.NoNewPrivs}, engine.FieldSeccomp: {&p.Seccomp},
		}[f]
		format = strings.TrimSpace(strings.Repeat("%d ", len(into)))
	}
	if _, err := fmt.Sscanf(text, format, into...); len(into) > 0 && err != nil {
		panic(fmt.Sprintf("%s: %q: %v", f, text, err))
	}
}

// never returns a value that no process of a scenario has.
func never(f engine.Field) string {
	switch f {
	case engine.FieldEntryLeader:
		return "ssm 987654321"
	case engine.FieldTTY:
		return "999:999"
	case engine.FieldCaps:
		return "abc abc abc abc abc"
	case engine.FieldPrivileges:
		return engine.ByFileCaps.String()
	case engine.FieldExeFile:
		return "0:0 9 9 100755 9 9 true"
	case engine.FieldStdio:
		return "socket inet 0:0 9 memfd  0:0 9 closed  0:0 0"
	case engine.FieldUIDs, engine.FieldGIDs, engine.FieldLogin, engine.FieldPIDNS:
		return "0 987654"
	}
	return "987654321"
}

const allIDs = engine.ChangedSID | engine.ChangedUID | engine.ChangedGID | engine.ChangedPGID

// mutant is a defect that the scorer must detect. damage applies it to the i-th event, and reports
// whether it is applicable there.
type mutant struct {
	name   string
	joined bool // damages joined events
	damage func(d *delivery, s *score.Seen, i int) bool
}

var mutants = slices.Concat(fieldMutants(), []mutant{
	{name: "a cached value is marked as reported", damage: func(d *delivery, s *score.Seen, _ int) bool {
		e, _ := d.eventOf(s)
		for f := range engine.Field(engine.NumFields) {
			if e != nil && s.Process.Cached.Has(f) && f != engine.FieldPPID && e.State.Known.Has(f) && !e.Inside.Known.Has(f) &&
				!s.Process.Truncated.Has(f) && truth.ValueOf(s.Process, f) != e.State.Value[f] {
				s.Process.Cached &^= f.Set()
				return true
			}
		}
		return false
	}},
	{name: "a truncated value is not marked as truncated", damage: func(d *delivery, s *score.Seen, _ int) bool {
		ok := d.reported(s).Has(engine.FieldArgs) && len(s.Process.Image.Args) > 1
		s.Process.Image.Args = s.Process.Image.Args[:len(s.Process.Image.Args)/2]
		return ok
	}},
	{name: "a whole value is marked as truncated", damage: func(d *delivery, s *score.Seen, _ int) bool {
		ok := d.reported(s).Has(engine.FieldCwd)
		s.Process.Truncated |= engine.FieldCwd.Set()
		return ok
	}},
	{name: "arguments run into each other", damage: func(d *delivery, s *score.Seen, _ int) bool {
		joined := bytes.Replace(s.Process.Image.Args, []byte{0}, []byte{' '}, 1)
		ok := d.reported(s).Has(engine.FieldArgs) && !bytes.Equal(joined, s.Process.Image.Args)
		s.Process.Image.Args = joined
		return ok
	}},
	{name: "a dropped event", damage: func(d *delivery, s *score.Seen, i int) bool {
		e, _ := d.eventOf(s)
		d.Single = slices.Delete(d.Single, i, i+1)
		return e != nil
	}},
	{name: "more events dropped than counted as lost", damage: func(d *delivery, s *score.Seen, i int) bool {
		first, _ := d.eventOf(s)
		if first == nil || i+1 == len(d.Single) {
			return false
		}
		second, _ := d.eventOf(&d.Single[i+1])
		d.Single, d.lost = slices.Delete(d.Single, i, i+2), 1
		return second != nil
	}},
	{name: "an event twice", damage: func(d *delivery, s *score.Seen, i int) bool {
		e, _ := d.eventOf(s)
		d.Single = slices.Insert(d.Single, i, *s)
		// Repeated changes join, so a second event may report the first change again.
		return e != nil && s.Events&(engine.EventIDChange|engine.EventSetProcTitle) == 0
	}},
	{name: "two events of a process in the wrong order", damage: func(d *delivery, s *score.Seen, i int) bool {
		for k := i + 1; k < len(d.Single); k++ {
			if o := &d.Single[k]; d.processOf(s) == d.processOf(o) && !o.Thread {
				first, _ := d.eventOf(s)
				second, _ := d.eventOf(o)
				d.Single[i], d.Single[k] = *o, *s
				return first != nil && second != nil
			}
		}
		return false
	}},
	{name: "an event after all others", damage: func(d *delivery, s *score.Seen, i int) bool {
		e, _ := d.eventOf(s)
		later := slices.ContainsFunc(d.Single[i+1:], func(o score.Seen) bool {
			l, _ := d.eventOf(&o)
			return e != nil && l != nil && e.Before(l)
		})
		d.Single = append(slices.Delete(d.Single, i, i+1), *s)
		return later
	}},
	{name: "stamped before it happened", damage: func(d *delivery, s *score.Seen, _ int) bool {
		e, i := d.eventOf(s)
		if i == 0 || e.Process.Born() >= e.Earliest || slices.ContainsFunc(e.Process.Events[:i], func(o *truth.Event) bool { return o.Kind == e.Kind }) {
			return false
		}
		s.Time = e.Earliest - 1
		return true
	}},
	{name: "stamped after it happened", damage: func(d *delivery, s *score.Seen, _ int) bool {
		e, _ := d.eventOf(s)
		if e == nil {
			return false
		}
		s.Time = e.Latest + d.AfterEnd + 1
		return e.Kind != engine.KindSetProcTitle && e.Kind != engine.KindIDChange
	}},
	{name: "the wall time of another second", damage: func(d *delivery, s *score.Seen, _ int) bool {
		s.Wall = s.Wall.Add(time.Second)
		return d.processOf(s) != nil && d.WallOffset != 0
	}},
	{name: "a child that nobody forked", damage: func(d *delivery, s *score.Seen, i int) bool {
		e, _ := d.eventOf(s)
		if e == nil || s.Events != engine.EventExec {
			return false
		}
		child := *s
		child.Events, child.Process = engine.EventFork, &engine.Process{PID: 1 << 30}
		child.Process.Known, child.Process.PPID = engine.FieldPPID.Set(), s.Process.PID
		d.Single = slices.Insert(d.Single, i+1, child)
		return true
	}},
	{name: "a change after the end", damage: func(d *delivery, s *score.Seen, i int) bool {
		l := d.processOf(s)
		if l == nil || s.Events != engine.EventExit || s.Thread {
			return false
		}
		late := *s
		late.Events, late.Time = engine.EventSetProcTitle, l.Ended()+d.AfterEnd+1
		d.Single = slices.Insert(d.Single, i+1, late)
		return d.processOf(&late) == nil
	}},
	extra("a core dump that did not happen", engine.EventCoreDump, engine.KindCoreDump),
	extra("a change of the comm that did not happen", engine.EventSetProcTitle, engine.KindSetProcTitle),
	extra("a change of ids that did not happen", engine.EventIDChange, engine.KindIDChange),
	extra("a change of namespaces that did not happen", engine.EventNSChange, engine.KindNSChange),
	extra("a tracer that did not attach", engine.EventPtrace, engine.KindPtrace),
	extra("a move to a cgroup that did not happen", engine.EventCgroupChange, engine.KindCgroupChange),
	{name: "a REPARENT is missing", damage: func(d *delivery, s *score.Seen, i int) bool {
		if s.Events != engine.EventReparent {
			return false
		}
		d.Single = slices.Delete(d.Single, i, i+1)
		return true
	}},
	{name: "a parent that never ended", damage: func(_ *delivery, s *score.Seen, _ int) bool {
		s.OldPPID++
		return s.Events == engine.EventReparent
	}},
	{name: "a new parent that is no ancestor", damage: func(_ *delivery, s *score.Seen, _ int) bool {
		s.Process.PPID += 7
		return s.Events == engine.EventReparent
	}},
	{name: "the end of a live process is inferred", damage: func(d *delivery, s *score.Seen, i int) bool {
		e, _ := d.eventOf(s)
		gone := *s
		gone.Events, gone.Process = engine.EventGone, s.Process.Clone()
		gone.Process.Exited, gone.Process.Inferred = true, true
		d.Single = slices.Insert(d.Single, i, gone)
		return e != nil
	}},
	{name: "ids that did not change", damage: func(d *delivery, s *score.Seen, _ int) bool {
		e, _ := d.eventOf(s)
		if e == nil || e.Kind != engine.KindIDChange || s.ID == allIDs {
			return false
		}
		s.ID = allIDs
		return true
	}},
	{name: "another namespace that changed", damage: func(d *delivery, s *score.Seen, _ int) bool {
		e, _ := d.eventOf(s)
		s.NS.Changed ^= engine.ChangedUTS
		return e != nil && e.Kind == engine.KindNSChange
	}},
	{name: "another earlier namespace", damage: func(d *delivery, s *score.Seen, _ int) bool {
		e, _ := d.eventOf(s)
		s.NS.Old.Net++
		return e != nil && e.NS.Old[3] != 0
	}},
	{name: "another tracer or mover", damage: func(d *delivery, s *score.Seen, _ int) bool {
		e, _ := d.eventOf(s)
		s.Tracer++
		return e != nil && (e.Kind == engine.KindPtrace || e.Kind == engine.KindCgroupChange)
	}},
	{name: "the event of another process", damage: func(d *delivery, s *score.Seen, i int) bool {
		e, _ := d.eventOf(s)
		for _, o := range d.Single[:i] {
			if l := d.processOf(&o); e != nil && l != nil && l != e.Process && e.Kind != engine.KindSetProcTitle && e.Kind != engine.KindIDChange {
				s.Process.PID = uint32(l.PID)
				return true
			}
		}
		return false
	}},
	{name: "the start of the process that had the pid before", damage: func(d *delivery, s *score.Seen, i int) bool {
		for _, o := range d.Single[:i] {
			a, b := d.processOf(&o), d.processOf(s)
			if a != nil && b != nil && a != b && a.PID == b.PID && s.Process.Known.Has(engine.FieldStart) &&
				s.Process.Start-o.Process.Start > max(s.Process.StartUnit, 1) {
				s.Process.Start = o.Process.Start
				e, _ := d.eventOf(s)
				return e != nil
			}
		}
		return false
	}},
	{name: "another parent at birth", damage: func(d *delivery, s *score.Seen, _ int) bool {
		s.Process.Birth.Parent.PID++
		return d.reported(s) != 0 && s.Process.Birth.Known.Has(engine.FieldPPID)
	}},
	{name: "a parent at birth that started later", damage: func(d *delivery, s *score.Seen, _ int) bool {
		s.Process.Birth.Parent.Start = s.Process.Start + uint64(time.Second)
		return d.reported(s).Has(engine.FieldStart) && s.Process.Birth.Known.Has(engine.FieldStart)
	}},
	{name: "ended while it lives", damage: func(d *delivery, s *score.Seen, _ int) bool {
		s.Process.Exited = true
		return d.processOf(s) != nil && !s.Thread && !s.Events.Has(engine.EventExit)
	}},
	{name: "not ended at its end", damage: func(d *delivery, s *score.Seen, _ int) bool {
		s.Process.Exited = false
		return d.reported(s).Has(engine.FieldExit)
	}},
	{name: "a reported end is marked as inferred", damage: func(d *delivery, s *score.Seen, _ int) bool {
		e, _ := d.eventOf(s)
		s.Process.Inferred = true
		return e != nil
	}},
	{name: "the time of another end", damage: func(d *delivery, s *score.Seen, _ int) bool {
		ok := d.reported(s).Has(engine.FieldExit)
		s.Process.Task.Exit.Time += d.AfterEnd + uint64(time.Hour)
		return ok
	}},
	{name: "the table has another process", damage: func(d *delivery, s *score.Seen, _ int) bool {
		s.Table = "another"
		return d.processOf(s) != nil
	}},
	{name: "the leader of the session is not known", damage: func(d *delivery, s *score.Seen, _ int) bool {
		return d.changeLeader(s, engine.FieldSID, func(leader **engine.Identity) { *leader = nil })
	}},
	{name: "another process as the leader of the group", damage: func(d *delivery, s *score.Seen, _ int) bool {
		return d.changeLeader(s, engine.FieldPGID, func(leader **engine.Identity) { *leader = &engine.Identity{PID: (*leader).PID + 1} })
	}},
	{name: "the leader of a former session of the number", damage: func(d *delivery, s *score.Seen, _ int) bool {
		return d.changeLeader(s, engine.FieldSID, func(leader **engine.Identity) {
			*leader = &engine.Identity{PID: (*leader).PID, Start: (*leader).Start - min((*leader).Start-1, uint64(time.Minute))}
		})
	}},
	{name: "the start of a thread is dropped", damage: func(d *delivery, s *score.Seen, i int) bool {
		l := d.processOf(s)
		ok := l != nil && !l.OpenThreads && s.Thread && s.Events == engine.EventFork && l.Born() > d.Opened
		d.Single = slices.Delete(d.Single, i, i+1)
		return ok
	}},
	{name: "a thread twice", damage: func(d *delivery, s *score.Seen, i int) bool {
		l := d.processOf(s)
		d.Single = slices.Insert(d.Single, i, *s)
		return l != nil && !l.OpenThreads && s.Thread
	}},
	{name: "a thread that nobody started", damage: func(d *delivery, s *score.Seen, _ int) bool {
		l := d.processOf(s)
		s.TID = 1 << 30
		return l != nil && !l.OpenThreads && s.Thread
	}},
	{name: "a thread from a queue that has none", joined: true, damage: func(d *delivery, s *score.Seen, _ int) bool {
		s.Thread = true
		return d.processOf(s) != nil
	}},
	{name: "events that were not joined", joined: true, damage: func(d *delivery, s *score.Seen, i int) bool {
		before := s.Events &^ engine.EventExit
		if d.processOf(s) == nil || before == s.Events || before == 0 || d.slow(s) {
			return false
		}
		exit := *s
		s.Events, exit.Events = before, engine.EventExit
		d.Joined = slices.Insert(d.Joined, i+1, exit)
		return true
	}},
	{name: "events joined that are apart", joined: true, damage: func(d *delivery, s *score.Seen, i int) bool {
		ok := d.processOf(s) != nil && s.Events.Has(engine.EventIDChange) && !s.Events.Has(engine.EventExec) && !d.slow(s)
		s.Events |= engine.EventExec
		return ok
	}},
	{name: "a part of a joined event has another time", joined: true, damage: func(d *delivery, s *score.Seen, _ int) bool {
		if len(s.Parts) < 2 || d.processOf(s) == nil {
			return false
		}
		s.Parts[1].Time += d.AfterEnd + uint64(time.Hour)
		return true
	}},
	{name: "a part of a joined event is left out", joined: true, damage: func(d *delivery, s *score.Seen, _ int) bool {
		if len(s.Parts) < 2 || d.processOf(s) == nil || s.Parts[0].Kind == s.Parts[1].Kind {
			return false
		}
		s.Parts = s.Parts[:1]
		return true
	}},
	{name: "an image with the ids of later", joined: true, damage: func(d *delivery, s *score.Seen, _ int) bool {
		i := slices.IndexFunc(s.Parts, func(p engine.Part) bool {
			return p.Kind == engine.KindExec && (p.Known &^ p.Cached).Has(engine.FieldUIDs)
		})
		l := d.processOf(s)
		if i < 0 || l == nil || !slices.ContainsFunc(l.Events, func(e *truth.Event) bool {
			return e.Kind == engine.KindExec && e.State.Known.Has(engine.FieldUIDs)
		}) {
			return false
		}
		s.Parts[i].Cred.EUID = 987654
		return true
	}},
})

// slow reports whether a process runs too long for its events to be joined.
func (d *delivery) slow(s *score.Seen) bool {
	l := d.processOf(s)
	return l.Born() < d.Opened || l.Ended()-l.Born() > cmp.Or(d.JoinedHold, d.Hold)/2 ||
		slices.ContainsFunc(l.Events, func(e *truth.Event) bool { return e.Optional })
}

// fieldMutants returns mutants that give each field a wrong value, an earlier value, and no value.
func fieldMutants() (list []mutant) {
	for f := range engine.Field(engine.NumFields) {
		if engine.FieldsUsage.Has(f) {
			list = append(list, usageMutants(f)...)
			continue
		}
		list = append(list, mutant{name: "wrong " + f.String(), damage: func(d *delivery, s *score.Seen, _ int) bool {
			p := s.Process
			ok := d.reported(s).Has(f)
			switch f {
			case engine.FieldStart:
				p.Start += uint64(time.Hour)
			case engine.FieldExit:
				p.Task.Exit.WaitStatus ^= 0x100
			default:
				set(p, f, never(f))
			}
			return ok
		}}, mutant{name: "unknown " + f.String(), damage: func(d *delivery, s *score.Seen, _ int) bool {
			brought := d.reported(s).Has(f) && d.Table.Fields[f].Brings(s.Events)
			s.Process.Known &^= f.Set()
			return brought
		}})
		if f == engine.FieldStart || f == engine.FieldExit {
			continue
		}
		list = append(list, mutant{name: "cached and of no time: " + f.String(), damage: func(d *delivery, s *score.Seen, _ int) bool {
			e, i := d.eventOf(s)
			if e == nil || !d.reported(s).Has(f) || d.Table.Fields[f].Origin != engine.OriginKernel {
				return false
			}
			if slices.ContainsFunc(e.Process.Events[:i], func(was *truth.Event) bool { return !was.State.Known.Has(f) && !was.Inside.Known.Has(f) }) {
				return false // the scenario may not record the value
			}
			set(s.Process, f, never(f))
			s.Process.Cached |= f.Set()
			return true
		}}, mutant{name: "stale " + f.String(), damage: func(d *delivery, s *score.Seen, _ int) bool {
			e, i := d.eventOf(s)
			if i == 0 || !d.reported(s).Has(f) || f == engine.FieldPPID && (e.Process.Creator == nil || e.Process.Creator.Ended() >= e.Earliest) {
				return false // while a parent ends, both values are right
			}
			before := e.Process.Events[i-1].State
			if !before.Known.Has(f) || !e.State.Known.Has(f) || e.Inside.Known.Has(f) || before.Value[f] == e.State.Value[f] {
				return false
			}
			set(s.Process, f, before.Value[f])
			return true
		}})
	}
	return list
}

// usageMutants returns mutants that damage the resource usage of a process.
func usageMutants(f engine.Field) []mutant {
	used := func(d *delivery, s *score.Seen) *truth.Used {
		e, _ := d.eventOf(s)
		if e == nil || e.Used == nil || !s.Process.Known.Has(f) || f == engine.FieldIO && e.Used.IO == nil {
			return nil
		}
		return e.Used
	}
	wrong := func(what string, change func(*engine.Usage, *truth.Used)) mutant {
		return mutant{name: what + " " + f.String(), damage: func(d *delivery, s *score.Seen, _ int) bool {
			u := used(d, s)
			if u != nil {
				change(&s.Process.Usage, u)
			}
			return u != nil
		}}
	}
	unknown := mutant{name: "unknown " + f.String(), damage: func(d *delivery, s *score.Seen, _ int) bool {
		e, _ := d.eventOf(s)
		u := used(d, s)
		s.Process.Known &^= f.Set()
		return u != nil && len(e.Process.Threads) == 0 && !e.Process.OpenThreads
	}}
	switch f {
	case engine.FieldCPUTime:
		return []mutant{unknown, wrong("too much", func(u *engine.Usage, most *truth.Used) { u.SystemTime = most.CPU + 1e6 })}
	case engine.FieldPeakRSS:
		return []mutant{unknown, wrong("too much", func(u *engine.Usage, most *truth.Used) { u.PeakRSS = most.PeakRSS + 1 })}
	}
	return []mutant{unknown,
		wrong("too much", func(u *engine.Usage, most *truth.Used) { u.WriteBytes = most.IO.WriteBytes + 1 }),
		wrong("too much read", func(u *engine.Usage, most *truth.Used) { u.RChar = most.IO.RChar + 1 }),
	}
}

// extra returns a mutant that inserts an event that did not happen, at the time of a real event.
func extra(name string, events engine.Events, kind engine.Kind) mutant {
	return mutant{name: name, damage: func(d *delivery, s *score.Seen, i int) bool {
		e, _ := d.eventOf(s)
		if e == nil || slices.ContainsFunc(e.Process.Events, func(e *truth.Event) bool { return e.Kind == kind }) {
			return false
		}
		other := *s
		other.Events, other.ID, other.Tracer = events, engine.ChangedUID, 1
		d.Single = slices.Insert(d.Single, i+1, other)
		return true
	}}
}

// score scores a delivery, and reports whether it has no defect.
func (d *delivery) score() (*score.Score, bool) {
	s := score.Compute(d.Delivered, d.processes)
	return s, s.Perfect() || d.lost > 0 && s.PerfectBut(d.lost)
}

// catchMutants injects each mutant into a correct delivery at most tries times, and returns the
// number of times that it was applicable.
func (d *delivery) catchMutants(t *testing.T, tries int) map[string]int {
	t.Helper()
	if s, perfect := d.score(); !perfect {
		t.Fatalf("%s: the delivery is not perfect: got %v\n%s", d.Backend, s, strings.Join(s.Findings, "\n"))
	}
	fits := make(map[string]int)
	rng := rand.New(rand.NewPCG(1, 2))
	for _, m := range mutants {
		list := d.Single
		if m.joined {
			list = d.Joined
		}
		for _, i := range rng.Perm(len(list)) {
			if fits[m.name] == tries {
				break
			}
			c, s := d.clone(i, m.joined)
			was := fmt.Sprintf("%s of %d at %d", s.Events, s.Process.PID, s.Time)
			if !m.damage(c, s, i) {
				continue
			}
			fits[m.name]++
			if _, perfect := c.score(); perfect {
				t.Errorf("%s: mutant not detected: %s, %s", d.Backend, m.name, was)
			}
		}
	}
	if s, perfect := d.score(); !perfect {
		t.Errorf("%s: a mutant damaged more than its copy: got %v", d.Backend, s)
	}
	return fits
}

// flawless returns the events that a perfect backend delivers for a family of processes, with all
// kinds of events.
func flawless(t *testing.T) *delivery {
	tell := func(pairs ...any) (s truth.State) {
		for i := 0; i < len(pairs); i += 2 {
			s.Set(pairs[i].(engine.Field), pairs[i+1].(string))
		}
		return s
	}
	caps := func(sets string) string {
		p := new(engine.Process)
		set(p, engine.FieldCaps, sets)
		return truth.ValueOf(p, engine.FieldCaps)
	}
	processes, err := truth.Assemble([]truth.Record{
		{Op: truth.Fork, PID: 8, Earliest: 1e9, Latest: 1e9 + 10, Parent: 3, State: tell(
			engine.FieldUIDs, "0 0", engine.FieldSUID, "0", engine.FieldGIDs, "0 0", engine.FieldSGID, "0", engine.FieldCaps, caps("0 1 2 3 4"),
			engine.FieldPGID, "8", engine.FieldSID, "8", engine.FieldTTY, "0:0", engine.FieldUTSNS, "11", engine.FieldIPCNS, "12",
			engine.FieldMntNS, "13", engine.FieldNetNS, "14", engine.FieldComm, "old", engine.FieldExe, "/bin/old",
			engine.FieldArgs, "old\x00one\x00", engine.FieldCwd, "/a/b", engine.FieldCgroup, "/slice",
			engine.FieldParentSignal, "10", engine.FieldBirthParentTID, "3", engine.FieldLogin, "6 1", engine.FieldExeFile, "0:0 1 2 100755 0 0 false", engine.FieldExecPath, "./old",
			engine.FieldEnviron, "A=1\x00",
			engine.FieldPIDNS, "4026531836 8", engine.FieldUserNS, "15", engine.FieldCgroupNS, "16", engine.FieldTimeNS, "17", engine.FieldEntryLeader, "container 8",
			engine.FieldNoNewPrivs, "0", engine.FieldSeccomp, "0", engine.FieldStdio, "tty  0:0 1 tty  0:0 1 tty  0:0 1")},
		{Op: truth.Fork, PID: 9, Creator: 8, Parent: 8, Earliest: 1e9 + 100, Latest: 1e9 + 110, State: tell(
			engine.FieldParentSignal, "10", engine.FieldBirthParentTID, "8", engine.FieldPrivileges, "set_gid")},
		{Op: truth.IDs, PID: 9, Earliest: 1e9 + 120, Latest: 1e9 + 130, Own: true, ID: engine.ChangedUID | engine.ChangedGID, State: tell(
			engine.FieldUIDs, "5 6", engine.FieldSUID, "6", engine.FieldGIDs, "4 3", engine.FieldSGID, "3", engine.FieldCaps, caps("0 0 0 3 0"))},
		{Op: truth.Comm, PID: 9, Earliest: 1e9 + 140, Latest: 1e9 + 150, Own: true, State: tell(engine.FieldComm, "mid")},
		{Op: truth.Exec, PID: 9, Earliest: 1e9 + 160, Latest: 1e9 + 170, Own: true, State: tell(
			engine.FieldUIDs, "5 6", engine.FieldSUID, "6", engine.FieldGIDs, "4 3", engine.FieldSGID, "3", engine.FieldCaps, caps("0 0 0 3 0"),
			engine.FieldPGID, "9", engine.FieldSID, "9", engine.FieldTTY, "1:2", engine.FieldUTSNS, "21", engine.FieldIPCNS, "22",
			engine.FieldMntNS, "23", engine.FieldNetNS, "24", engine.FieldComm, "new", engine.FieldExe, "/bin/new",
			engine.FieldArgs, "new\x00two\x00", engine.FieldCwd, "/c/d", engine.FieldCgroup, "/other",
			engine.FieldLogin, "7 2", engine.FieldExeFile, "0:0 3 4 100755 0 0 true", engine.FieldExecPath, "./new",
			engine.FieldEnviron, "B=2\x00",
			engine.FieldUserNS, "25", engine.FieldCgroupNS, "26", engine.FieldTimeNS, "27", engine.FieldEntryLeader, "sshd 9", engine.FieldPrivileges, "set_uid",
			engine.FieldNoNewPrivs, "1", engine.FieldSeccomp, "2", engine.FieldStdio, "socket unix 0:0 2 pipe  0:0 3 null  0:0 4")},
		{Op: truth.Cgroup, PID: 9, Earliest: 1e9 + 170, Latest: 1e9 + 171, Tracer: 3, State: tell(engine.FieldCgroup, "/moved")},
		{Op: truth.ThreadStart, PID: 9, TID: 10, Earliest: 1e9 + 172, Latest: 1e9 + 173},
		{Op: truth.ThreadEnd, PID: 9, TID: 10, Earliest: 1e9 + 175, Latest: 1e9 + 176},
		{Op: truth.Ptrace, PID: 9, Earliest: 1e9 + 177, Latest: 1e9 + 178, Own: true, Tracer: 3},
		{Op: truth.Fork, PID: 11, Creator: 9, Parent: 9, Earliest: 1e9 + 178, Latest: 1e9 + 179},
		{Op: truth.Exit, PID: 9, Earliest: 1e9 + 180, Latest: 1e9 + 190, Status: 0x300},
		{Op: truth.Exec, PID: 11, Earliest: 1e9 + 192, Latest: 1e9 + 193, Own: true, State: tell(engine.FieldPPID, "8", engine.FieldComm, "orphan")},
		{Op: truth.Exit, PID: 11, Earliest: 1e9 + 195, Latest: 1e9 + 196, Used: &truth.Used{CPU: 5e6, User: 4e6, System: 1e6, PeakRSS: 4096, IO: &truth.IO{RChar: 1}}},
		{Op: truth.Fork, PID: 9, Creator: 8, Parent: 8, Earliest: 1e9 + 200, Latest: 1e9 + 210},
		{Op: truth.Exec, PID: 9, Earliest: 1e9 + 220, Latest: 1e9 + 230, Own: true, State: tell(engine.FieldComm, "brief")},
		{Op: truth.Exit, PID: 9, Earliest: 1e9 + 240, Latest: 1e9 + 250, Status: 9},
		{Op: truth.NS, PID: 8, NS: truth.NSChange{Changed: engine.ChangedNet, Old: [8]uint32{3: 7}}, Earliest: 1e9 + 260, Latest: 1e9 + 270},
		{Op: truth.Exit, PID: 8, Earliest: 1e9 + 300, Latest: 1e9 + 310},
	})
	if err != nil {
		t.Fatal(err)
	}
	w := &score.Delivered{Backend: "synthetic", Table: new(engine.CapabilityTable), Hold: 1e6, Opened: 1, WallOffset: 5e9, Threads: true}
	for k := range w.Table.Kinds {
		w.Table.Kinds[k] = engine.Capability{Origin: engine.OriginKernel, At: ^engine.Events(0)}
	}
	for f := range w.Table.Fields {
		w.Table.Fields[f] = engine.Capability{Origin: engine.OriginKernel, At: ^engine.Events(0)}
	}
	w.Table.Fields[engine.FieldExit].At = engine.EventExit
	for _, l := range processes {
		joins := score.Join(l.Events)
		first := len(w.Single)
		for _, e := range l.Events {
			w.Single = append(w.Single, seenAll(e))
		}
		own := slices.Clone(w.Single[first:])
		for _, mask := range joins {
			var all score.Seen
			for left := mask; left != 0; own = own[1:] {
				all.Parts = append(all.Parts, own[0].Parts...)
				all.Process, all.ID, all.NS, all.Tracer = own[0].Process.Clone(), all.ID|own[0].ID, own[0].NS, own[0].Tracer
				left &^= own[0].Events
			}
			all.Events, all.Time, all.At = mask, all.Parts[0].Time, all.Parts[0].Time
			all.Wall = time.Unix(0, int64(all.Time)+5e9)
			w.Joined = append(w.Joined, all)
		}
	}
	for tid, events := range map[uint64]engine.Events{172: engine.EventFork, 175: engine.EventExit} {
		s := seenAll(processes[1].Events[3])
		s.Events, s.Time, s.Wall, s.Thread, s.TID = events, 1e9+tid, time.Unix(0, int64(6e9+tid)), true, 10
		w.Single = append(w.Single, s)
	}
	orphan := seenAll(processes[2].Events[0])
	orphan.Events, orphan.Time, orphan.Wall, orphan.OldPPID, orphan.Parts = engine.EventReparent, 1e9+180, time.Unix(0, 6e9+180), 9, nil
	orphan.Process.PPID = 8
	w.Single = append(w.Single, orphan)
	for _, list := range [][]score.Seen{w.Single, w.Joined} {
		slices.SortFunc(list, func(a, b score.Seen) int { return cmp.Compare(a.Time, b.Time) })
	}
	return &delivery{Delivered: w, processes: processes}
}

// seenAll returns e as delivered with all recorded fields.
func seenAll(e *truth.Event) score.Seen {
	p := &engine.Process{PID: uint32(e.Process.PID)}
	for f := range engine.Field(engine.NumFields) {
		if e.State.Known.Has(f) {
			set(p, f, e.State.Value[f])
		}
	}
	p.Known, p.Start, p.StartUnit = e.State.Known|engine.FieldStart.Set(), e.Process.Born(), 1
	p.Birth.Known = engine.FieldPPID.Set() | engine.FieldStart.Set()
	p.Birth.Parent = engine.Identity{PID: 3, Start: 5}
	if c := e.Process.Creator; c != nil {
		p.Birth.Parent = engine.Identity{PID: uint32(c.PID), Start: c.Born()}
	}
	if e.Kind == engine.KindExit {
		p.Exited, p.Known, p.Task.Exit = true, p.Known|engine.FieldExit.Set(), engine.Exit{WaitStatus: e.Status, Time: e.Earliest}
	}
	if u := e.Used; u != nil {
		p.Known |= engine.FieldsUsage
		p.Usage = engine.Usage{UserTime: u.User, SystemTime: u.System, PeakRSS: u.PeakRSS,
			RChar: u.IO.RChar, WChar: u.IO.WChar, ReadBytes: u.IO.ReadBytes, WriteBytes: u.IO.WriteBytes}
	}
	var leaders [2]*engine.Identity
	for i, pid := range []uint32{p.SID, p.PGID} {
		for l := e.Process; l != nil && leaders[i] == nil; l = l.Creator {
			if l.PID == int(pid) {
				leaders[i] = &engine.Identity{PID: pid, Start: l.Born()}
			}
		}
	}
	ns := engine.NSChange{Changed: e.NS.Changed, Old: engine.Namespaces{Net: e.NS.Old[3]}}
	return score.Seen{
		Events: e.Kind.Events(), ID: e.ID, NS: ns, Time: e.Earliest, At: e.Earliest, Wall: time.Unix(0, int64(e.Earliest)+5e9), Tracer: uint32(e.Tracer),
		Leaders: &leaders, Process: p, Parts: []engine.Part{{Kind: e.Kind, IDChange: e.ID, Time: e.Earliest, Cred: p.Cred, Known: p.Known & engine.FieldsIDs}},
	}
}

// TestMutants checks that each mutant of a perfect delivery is detected wherever it is applicable,
// and that each is applicable somewhere.
func TestMutants(t *testing.T) {
	fits := flawless(t).catchMutants(t, 6)
	t.Logf("%d mutants", len(mutants))
	for _, m := range mutants {
		// The family of flawless has no cached values, and its birth threads and pids never
		// change.
		if fits[m.name] == 0 && !slices.Contains([]string{"a cached value is marked as reported", "stale birth_parent_tid", "stale pid_ns"}, m.name) {
			t.Errorf("mutant %s is applicable nowhere", m.name)
		}
	}
}

// TestMutantsOfRealProcesses checks that the same mutants are detected in events of this host's
// backends.
func TestMutantsOfRealProcesses(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	selected, err := Select([]string{
		"fork-exec-exit", "short-lives", "exec-chain-2", "setres-ids", "changed-before-exec", "comm", "thread-ends", "ptrace", "session", "chdir-exec",
		"pid-reuse-read", "kill-term", "one-by-one", "capset", "daemon",
	})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Repeats: 1}
	o.setDefaults()
	fits := make(map[string]int)
	_, err = listen(&o, selected, func(h *recording) {
		w, outcomes := h.Delivered, h.outcomes
		d := &delivery{Delivered: w, processes: outcomes[0].All[:0:0]}
		for _, o := range outcomes {
			for _, l := range o.Processes {
				// The director runs long, and belongs to each scenario.
				if l.PID != o.Director {
					d.processes = append(d.processes, l)
				}
			}
		}
		// Skip events of other processes to save time.
		pids := make(map[uint32]bool)
		for _, l := range d.processes {
			pids[uint32(l.PID)] = true
		}
		for _, list := range []*[]score.Seen{&w.Single, &w.Joined} {
			*list = slices.DeleteFunc(*list, func(s score.Seen) bool { return !pids[s.Process.PID] })
		}
		maps.Copy(fits, d.catchMutants(t, thorough.Rounds(1, 2)))
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		t.Logf("%d: %s", fits[m.name], m.name)
	}
}
