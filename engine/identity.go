package engine

// match is the result of the search for the process of an event.
type match uint8

const (
	matchNew     match = iota // a new process, the youngest of its pid
	matchSame                 // the process that find returns
	matchUnknown              // unknown, or a process that ended and left the table
)

// kindSeen is the kind of a process that was read from /proc.
const kindSeen Kind = NumKinds

// isBirth reports whether r is the FORK of a process.
func (r *RawEvent) isBirth() bool { return r.Kind == KindFork && !r.Thread }

// find returns the process of a raw event, nil if it is not in the table. It searches the processes
// of the pid, the youngest first, but not all: a pid can have thousands.
//
// The match is unknown if the event is older than the youngest process of the pid and matches no
// other. It is also unknown for the EXIT of a thread without a match, as the process may have
// ended.
func (t *table) find(r *RawEvent) (*process, match) {
	started, since := r.Task.Known.Has(FieldStart), r.Time
	if started {
		since = t.bornBy(r)
		since -= min(since, ProcStartUnit) // start times are rounded
	}
	youngest := t.byPID.get(r.PID)
	var guess *process
	for p := youngest; p != nil; p = p.older {
		if t.match(p, r) {
			if !started || !p.guessed() {
				return p, matchSame
			}
			guess = p // an older process may have the exact start time
		}
		if p.born <= since {
			break
		}
	}
	switch {
	case guess != nil:
		return guess, matchSame
	case youngest != nil && r.Time < youngest.born, r.Thread && r.Kind == KindExit:
		return nil, matchUnknown
	}
	return nil, matchNew
}

// guessed reports whether p and an older process of its pid may be the same: no event of p has a
// start time.
func (p *process) guessed() bool {
	return !p.Known.Has(FieldStart) && p.birth.from == fromEvent && p.life != ended
}

// match reports whether r is an event of p. Both have the same pid.
func (t *table) match(p *process, r *RawEvent) bool {
	started := r.Task.Known.Has(FieldStart)
	switch both := started && p.Known.Has(FieldStart); {
	case both && !p.sameStart(r.Task.Start, r.Task.StartUnit):
		return false
	case r.isBirth(): // the FORK comes after other events or after the read of /proc
		return p.birth.from != fromFork && r.Time <= p.asOf && (both || r.Time >= p.born)
	case both && p.StartUnit == 1 && r.Task.StartUnit == 1:
		return true
	case r.Time < p.born || p.endedBefore(r.Time): // rounded start times can be equal
		return false
	case both || r.Time <= p.asOf:
		return true
	case started && p.born+ProcStartUnit < t.bornBy(r):
		return false
	}
	return started && p.birth.from == fromFork && t.bornBy(r) <= p.born || !t.doubtful(p) || t.check(p)
}

// endedBefore reports whether p is known to have ended before a time.
func (p *process) endedBefore(time uint64) bool { return p.life == ended && p.asOf < time }

// bornBy returns the latest possible birth of the process of r: its start time, or the time of r if
// the start time is unknown.
func (t *table) bornBy(r *RawEvent) uint64 {
	if !r.Task.Known.Has(FieldStart) {
		return r.Time
	}
	return min(t.clock.Mono(r.Task.Start), r.Time)
}

// enter adds the process of r, the youngest of its pid. A pid has one process at a time, so the
// previous process has ended. Or both are the same process, which a later event with a start time
// will show.
func (t *table) enter(r *RawEvent, now uint64) *process {
	born, before := r.Time, t.byPID.get(r.PID)
	if !r.isBirth() {
		born = t.bornBy(r)
		if before != nil { // rounding can make the start time earlier
			born = max(born, min(before.asOf, r.Time))
		}
	}
	p := t.add(r.PID, born)
	if before != nil {
		t.replace(before, r, now)
	}
	return p
}
