package cnproc

import "github.com/quark-linux/quark/engine"

// loss knows which messages may be missing. The source tells it what the socket says, the tracker
// which messages come and when it looks at /proc; it tells them, and the enricher, of which times
// something may be missing.
//
// The socket counts what it drops, and reports an overrun once, before it gives what it held, which
// is of before the loss. From then on it drops all until it is empty. So an overrun is told, as a
// gap, behind what was held: where the socket was seen empty, or before a message with a later
// stamp, whichever is first. The sink gets the gap earlier if what was held fills it. What is
// dropped between the report and the empty socket is told in a second gap. Numbers that are missing
// among the messages of a CPU also show what the kernel had no memory to send.
type loss struct {
	clock    *bootClock
	filtered bool // the kernel leaves out kinds, so that numbers are missing anyway
	seq      sequence

	noted     uint64 // all messages of before were received, or counted as lost
	overruns  uint64 // times the socket reported one
	overrun   overrun
	congested bool   // the socket has not been empty since an overrun
	losing    bool   // nor since that was told: what is not told yet may be missing at any time
	dropped   uint64 // messages that the socket dropped
	told      uint64 // messages that gaps have told of
	void      uint64 // ends and core dumps that nothing confirms, as what would is lost

	until uint64 // messages of before may be missing, 0 for none
	gapTo uint64 // the latest end of a gap
	// rescan is set if threads may have come and gone unseen since the latest look at /proc.
	rescan  bool
	looked  uint64 // end of the latest look: a message of before can be of before it
	settled uint64 // ends of after are of processes that were seen in the look, or born since
}

// overrun is what the socket has dropped and no gap has told of.
type overrun struct {
	from, to uint64
	reported uint64 // time of the report, 0 if all is told
	drained  bool   // what the socket held at the overrun was read
	early    bool   // its gap was told, as the sink was full, before what was held
	dropped  uint64 // since the socket was opened
	counted  uint64 // a time before dropped was read, as to is one after it
}

// saw accounts for a message, and returns its number among those of its CPU, and whether messages
// are missing before it.
func (l *loss) saw(m *message) (seq uint64, missing bool, g engine.Gap) {
	gaps, last := l.seq.gaps, l.seq.last(m.cpu)
	seq = l.seq.saw(m.cpu, m.seq, m.time)
	if l.filtered || l.seq.gaps == gaps {
		return seq, false, g
	}
	g = engine.Gap{Cause: engine.LossSocketFull, CPU: m.cpu, From: last, To: m.time}
	l.count(&g, l.seq.gaps)
	return seq, true, g
}

// count sets how many messages a gap tells of, where lost is the number of all.
func (l *loss) count(g *engine.Gap, lost uint64) {
	if lost > l.told {
		g.Count, l.told = lost-l.told, lost
	}
}

// overran notes the report of an overrun. drops asks the socket for its count.
func (l *loss) overran(drops func() uint64) {
	l.overruns++
	l.congested = true
	o := &l.overrun
	if o.counted = l.clock.now(); o.reported == 0 {
		o.from, o.reported = l.noted, o.counted
	}
	l.dropped = drops()
	o.to, o.dropped = l.clock.now(), l.dropped
}

// emptied notes that the socket was empty at a time, and reports whether there is a gap to tell of.
func (l *loss) emptied(now uint64, drops func() uint64) bool {
	l.noted = now
	if !l.congested {
		return false
	}
	l.congested, l.losing = false, false
	counted := l.clock.now()
	if l.dropped = drops(); l.dropped <= max(l.told, l.overrun.dropped) {
		return false
	}
	o := &l.overrun
	o.counted, o.to, o.dropped = counted, l.clock.now(), l.dropped
	o.reported, o.early = o.to, false
	return true
}

// beforeOverrun reports whether a message is of before what the socket dropped and no gap tells of.
func (l *loss) beforeOverrun(m *message) bool {
	return l.overrun.reported == 0 || m.time <= l.overrun.reported
}

// tellEarly returns the gap of what the socket dropped and no gap has told of, for the sink alone.
func (l *loss) tellEarly() (g engine.Gap, ok bool) {
	if l.overrun.reported == 0 || l.overrun.early {
		return g, false
	}
	l.overrun.early = true
	return l.gap(), true
}

// tell returns the gap of what the socket dropped and the tracker does not know of. early is
// whether the sink does.
func (l *loss) tell() (g engine.Gap, early, ok bool) {
	o := &l.overrun
	if o.reported == 0 {
		return g, false, false
	}
	g, early = l.gap(), o.early
	o.reported, o.early, l.losing, o.drained = 0, false, l.congested, false
	o.from = o.counted
	return g, early, true
}

func (l *loss) gap() engine.Gap {
	o := &l.overrun
	g := engine.Gap{Cause: engine.LossSocketFull, CPU: engine.AllCPUs, From: o.from, To: o.to}
	l.count(&g, o.dropped)
	return g
}

// lose notes that messages of until a time may be missing.
func (l *loss) lose(until uint64) { l.until, l.rescan = max(l.until, until), true }

// look notes the end of a look at /proc.
func (l *loss) look(now uint64) { l.looked = now }

// strays reports whether an end that was stamped at a time can be of a process that was neither
// seen in the look nor born since.
func (l *loss) strays(time uint64) bool {
	return l.rescan || l.looked > 0 && time <= l.looked+maxStraggle
}

// unseen reports whether there may be, or have been, threads that nothing has told of at a time.
func (l *loss) unseen(time uint64) bool { return l.rescan || time <= l.looked }

// lookDue reports whether it is time now to look at /proc.
func (l *loss) lookDue(now uint64) bool {
	return l.rescan && !l.losing && now >= l.looked+rescanInterval
}

// sees reports whether nothing that follows a message is known to be missing.
func (l *loss) sees(m *message) bool { return !l.losing && m.time >= l.until }

// total returns how many events are known to be lost.
func (l *loss) total() uint64 {
	if l.filtered {
		return l.dropped + l.void
	}
	return max(l.dropped, l.seq.gaps) + l.void
}
