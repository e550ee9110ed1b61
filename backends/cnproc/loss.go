package cnproc

import "github.com/quark-linux/quark/engine"

// loss tracks which messages may be missing. Its inputs are the socket's reports, from the source,
// and the messages and looks at /proc, from the tracker. The tracker and the enricher ask it for
// the times at which messages may be missing.
//
// The socket counts the messages that it drops. It reports an overrun once, before it delivers its
// queue, which is older than the loss. After an overrun it drops every message until the queue is
// empty. So the gap of an overrun is reported after that queue: when the socket was seen empty, or
// before a message with a stamp later than the report, whichever is first. If the queue fills the
// sink, the sink gets the gap earlier. Messages dropped between the report and the empty socket are
// reported in a second gap. Missing numbers among the messages of a CPU also reveal messages that
// the kernel had no memory to send.
type loss struct {
	clock    *bootClock
	filtered bool // the kernel leaves out kinds, so that numbers are missing anyway
	seq      sequence

	noted     uint64 // every earlier message was received or counted as lost
	overruns  uint64 // overruns that the socket reported
	overrun   overrun
	congested bool   // the socket has not been empty since an overrun
	losing    bool   // nor since its gap was reported: others may be missing at any time
	dropped   uint64 // messages that the socket dropped
	told      uint64 // messages that gaps have reported
	void      uint64 // unconfirmed ends and core dumps: the confirming messages are lost

	until uint64 // earlier messages may be missing, 0 for none
	gapTo uint64 // the latest end of a gap
	// rescan is set if threads may have come and gone unseen since the latest look at /proc.
	rescan  bool
	looked  uint64 // end of the latest look: a message stamped earlier may predate it
	settled uint64 // later ends are of processes that were seen in the look, or born since
}

// overrun describes the dropped messages that no gap has reported.
type overrun struct {
	from, to uint64
	reported uint64 // time of the report, 0 if gaps have reported all
	drained  bool   // the messages that the socket held at the overrun were read
	early    bool   // the sink was full and got the gap before those messages
	dropped  uint64 // messages dropped since the socket was opened
	counted  uint64 // a time before dropped was read; to is a time after it
}

// saw counts a message. It returns the number of the message on its CPU and, if messages are
// missing before it, their gap.
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

// count sets g.Count to the lost messages that no gap has reported. lost is the number of all.
func (l *loss) count(g *engine.Gap, lost uint64) {
	if lost > l.told {
		g.Count, l.told = lost-l.told, lost
	}
}

// overran records the report of an overrun. drops reads the socket's count.
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

// emptied records that the socket was empty at a time, and reports whether a gap is due.
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

// beforeOverrun reports whether a message predates the dropped messages that no gap has reported.
func (l *loss) beforeOverrun(m *message) bool {
	return l.overrun.reported == 0 || m.time <= l.overrun.reported
}

// tellEarly returns the gap of the dropped messages that no gap has reported, for the sink alone.
func (l *loss) tellEarly() (g engine.Gap, ok bool) {
	if l.overrun.reported == 0 || l.overrun.early {
		return g, false
	}
	l.overrun.early = true
	return l.gap(), true
}

// tell returns the gap of the dropped messages that the tracker has not counted. early is set if
// the sink has that gap already.
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

// lose records that messages until a time may be missing.
func (l *loss) lose(until uint64) { l.until, l.rescan = max(l.until, until), true }

// look records the end of a look at /proc.
func (l *loss) look(now uint64) { l.looked = now }

// strays reports whether an end stamped at a time may belong to a process that was neither seen in
// the look nor born since.
func (l *loss) strays(time uint64) bool {
	return l.rescan || l.looked > 0 && time <= l.looked+maxStraggle
}

// unseen reports whether threads that no message has shown may exist, or have existed, at a time.
func (l *loss) unseen(time uint64) bool { return l.rescan || time <= l.looked }

// lookDue reports whether to look at /proc now.
func (l *loss) lookDue(now uint64) bool {
	return l.rescan && !l.losing && now >= l.looked+rescanInterval
}

// sees reports whether no later message than m is known to be missing.
func (l *loss) sees(m *message) bool { return !l.losing && m.time >= l.until }

// total returns how many events are known to be lost.
func (l *loss) total() uint64 {
	if l.filtered {
		return l.dropped + l.void
	}
	return max(l.dropped, l.seq.gaps) + l.void
}
