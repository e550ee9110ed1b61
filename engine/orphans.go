package engine

import (
	"math"
	"slices"
)

// UnknownReaper is the value of [RawEvent.Creator] in the EXIT of a process whose children get an
// unknown parent.
const UnknownReaper = math.MaxUint32

// sigchld is the signal that an orphan sends to its new parent.
const sigchld = 17

// orphaning is the end of a process that had children: the reaper becomes their parent.
type orphaning struct {
	parent, reaper uint32
	time           uint64 // of the EXIT
}

// orphan is a child that has got a new parent, and has no REPARENT event yet.
type orphan struct {
	p    *process
	born uint64 // of p; the memory of p may have been reused since
	orphaning
}

// orphans are the children of processes that ended.
type orphans struct {
	ends []orphaning // in order of time; their children have the old parent
	list []orphan    // children with the new parent
}

// add adds the EXIT of a process with children. A joined EXIT can be later than the next EXITs.
func (o *orphans) add(exit *RawEvent) {
	if exit.Creator == 0 || exit.Thread {
		return
	}
	i := len(o.ends)
	for i > 0 && o.ends[i-1].time > exit.Time {
		i--
	}
	o.ends = slices.Insert(o.ends, i, orphaning{exit.PID, exit.Creator, exit.Time})
}

func (o *orphans) some() bool { return len(o.ends)+len(o.list) > 0 }

// adopt gives the living children of a process that ended their new parent. A child with a younger
// state, by a joined event, has no REPARENT. After a gap all values of a child are cached.
func (t *table) adopt(end orphaning) {
	for pid := range t.byPID.pids() {
		p := t.byPID.get(pid)
		if p.life != living || t.gapTo != 0 && p.asOf <= t.gapTo || p.PPID != end.parent || !p.Known.Has(FieldPPID) {
			continue
		}
		if p.asOf > end.time {
			p.orphan(end)
			continue
		}
		p.Cached = (p.Cached | t.unseen) & p.Known &^ FieldStart.Set()
		p.orphan(end)
		p.asOf = end.time
		t.orphans.list = append(t.orphans.list, orphan{p, p.born, end})
	}
}

// orphan gives p the new parent.
func (p *process) orphan(end orphaning) {
	p.PPID, p.ParentSignal = end.reaper, sigchld
	p.Cached &^= FieldPPID.Set() | FieldParentSignal.Set()
	if end.reaper == UnknownReaper {
		p.PPID, p.Known = 0, p.Known&^FieldPPID.Set()
	}
}

// keepReaper keeps the new parent of p if r has the old one: the kernel changes the parent shortly
// after the EXIT. An EXIT of p may have the old one, as no event follows.
func (t *table) keepReaper(p *process, r *RawEvent) {
	s := &r.Task
	if !s.Known.Has(FieldPPID) || r.isBirth() || r.Kind == KindExit || p.PPID == s.PPID || !p.Known.Has(FieldPPID) {
		return
	}
	if old := t.at(s.PPID, r.Time); old == nil || old.life != ended || old.asOf > r.Time || t.gapTo > old.asOf || !t.births {
		return // or another process may have the pid by now
	}
	s.PPID = p.PPID
}

// reach gives p the parent that it has at a time, before its REPARENT: events of p can join an
// older event.
func (o *orphans) reach(p *process, time uint64) {
	for _, end := range o.ends {
		if end.time < time && p.asOf <= end.time && p.PPID == end.parent && p.Known.Has(FieldPPID) {
			p.orphan(end)
		}
	}
}

// reparent returns the REPARENT event of the next orphan, or nil. A process ends after the events
// that precede its EXIT, so the table is searched when these are delivered. ripe is set if an event
// can be delivered.
func (e *Engine) reparent(now uint64, ripe bool) *Event {
	o := &e.table.orphans
	for o.some() {
		if len(o.list) == 0 {
			end, head := o.ends[0], e.buffer.oldest()
			over := ripe && head.Time > end.time || head == nil && e.drain.done
			if !over && !e.deliveredUntil(end.time, end.time+e.hold, now) {
				return nil
			}
			o.ends = slices.Delete(o.ends, 0, 1)
			e.table.adopt(end)
			slices.SortFunc(o.list, func(a, b orphan) int { return int(a.p.PID) - int(b.p.PID) })
			continue
		}
		one := o.list[0]
		o.list = slices.Delete(o.list, 0, 1)
		if one.p.born != one.born || one.p.life != living || one.time < e.begin || e.drain.until != 0 && one.time >= e.drain.until {
			continue
		}
		if ev := e.eventOf(EventReparent, one.p, one.time); ev != nil {
			ev.OldPPID = one.parent
			return ev
		}
	}
	return nil
}
