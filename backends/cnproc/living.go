package cnproc

import (
	"math"

	"github.com/quark-linux/quark/internal/freelist"
)

// living says of which process the end of a leader is: of the one that has the number, or of one
// that had it before.
//
// A process that ends wakes its parent before it makes its message: the parent may have reaped it,
// and its number may be another's, when the message is made, or comes. On a kernel with PREEMPT_RT
// that is the rule where a parent takes the same number again. But the kernel gives the parent's
// number only of one that had not been reaped when the message was stamped: then it is of the
// process that had the number at that time. See message.reaped.
//
// After a loss nobody can say whose a message is, so nothing of before counts.
type living struct {
	// pids were born, or have executed, since the last loss and have not ended: all their
	// messages since come.
	pids pidSet
	seen pidSet // others that were in /proc at the latest look and whose end has not come

	// numbers has what is known of a number that can have ends of several processes to come.
	numbers freelist.Map[uint32, number]
	settled uint64 // when they were looked through

	// runs reports whether a process of a number is seen to run, and when.
	runs func(pid uint32) (now uint64, ok bool)
	tell func(pid uint32, next uint64) // states the end of one that is late
}

// number is what is known of a number while ends of several of its processes can come: of the
// latest that was born; of late ones, that were born before it and have not sent their ends; and of
// older ones, that no message has told of.
type number struct {
	born  uint64 // birth of the latest, 0 for unknown
	over  bool   // its end was told
	late  []late // in their order
	older uint64 // until when the end of one that the look has shown can come, 0 for none

	doubt uint64 // ends that were stamped before may have been told, 0 for none
	mixed span   // stamps of ends that were taken for one of several that they could be
	// The latest times when the latest was seen to run, so that an end was not its, and was
	// taken for an older one's, or for a late one's. Who ran can be one that was born since.
	ranOlder, ranLate uint64
}

// late is a process whose number was given again before its end came.
type late struct{ born, next uint64 }

// span are the times from the earliest to the latest of some; the zero value is of none.
type span struct{ from, to uint64 }

func (s *span) add(time uint64) { s.from, s.to = soonest(s.from, time), max(s.to, time) }

// with returns s with another time.
func (s span) with(time uint64) span {
	s.add(time)
	return s
}

// owner is the process that the end of a leader is of.
type owner uint8

const (
	ofLatest owner = iota
	ofLate
	ofOlder
	ofTold // one whose end was told
)

// verdict says whose the end of a leader is.
type verdict struct {
	owner  owner
	next   uint64 // ofLate: when its number was given again
	lost   span   // ofOlder, unsure: when the message of the end that is lost was stamped
	known  bool   // the message is certain to be of that process
	seen   uint64 // known unless one is born before this, when the latest was seen to run
	unsure bool   // ofLatest: if it has ended, the message can still be of an older one
}

// whose says of which process the end of a leader is. strays is set if it can be of an older one,
// doubtful if a loss may have hidden the birth of the latest.
func (l *living) whose(m *message, strays, doubtful bool) verdict {
	n := l.numbers.In[m.pid]
	strays = strays || m.time <= n.older
	latest, after := !n.over || m.again, m.time > max(n.born, n.doubt)
	if !m.reaped() { // it had the number at that time
		if latest && after {
			return verdict{known: true}
		}
		for i, p := range n.late {
			if p.born < m.time && m.time < p.next {
				return l.take(m, n, i, true, strays)
			}
		}
	}
	switch {
	case !latest:
	case m.reaped() && strays && doubtful && !m.again:
		latest = false // it may have been told of, and nothing tells that from an older one
	case !after: // but the end of the latest may have been taken for that of another
		latest = n.mixed.from != 0 && (m.reaped() || !strays)
	}
	seen := uint64(0)
	if latest && (strays || len(n.late) > 0) {
		if now, ok := l.runs(m.pid); ok {
			latest, seen = false, now
		}
	}
	switch {
	case len(n.late) > 0: // one of them has ended, whosever the message is
		n.ranLate = max(n.ranLate, seen)
		alone := len(n.late) == 1 && !strays && !latest
		v := l.take(m, n, 0, alone && n.mixed.from == 0 && m.reaped(), strays)
		v.seen = seen
		return v
	case latest:
		return verdict{known: n.mixed.from == 0, unsure: strays, lost: n.mixed.with(m.time), seen: n.ranLate}
	case strays:
		if n.ranOlder = max(n.ranOlder, seen); seen == 0 && n.mixed.from != 0 {
			n.ranOlder = math.MaxUint64 // the latest's end may be what is missing
		}
		l.note(m.pid, n, true)
		return verdict{owner: ofOlder, lost: n.mixed.with(m.time)}
	}
	return verdict{owner: ofTold}
}

// take takes a message for the end of the ith of those that are late.
func (l *living) take(m *message, n number, i int, known, strays bool) verdict {
	v := verdict{owner: ofLate, next: n.late[i].next, known: known}
	n.late = append(n.late[:i:i], n.late[i+1:]...)
	if !known {
		n.mixed.add(m.time)
	}
	l.note(m.pid, n, strays)
	return v
}

// note keeps what is known of a number, unless no end of it can come.
func (l *living) note(pid uint32, n number, strays bool) {
	if n.over && len(n.late) == 0 && n.older == 0 && !strays {
		delete(l.numbers.In, pid)
		return
	}
	l.numbers.Put(pid, n)
}

// has reports whether all messages of a process come.
func (l *living) has(pid uint32) bool { return l.pids.has(pid) }

// born notes the birth of a process at a time. strays is as for whose.
func (l *living) born(pid uint32, time uint64, strays bool) {
	n, ok := l.numbers.In[pid]
	lives, seen := l.has(pid), l.seen.has(pid)
	l.pids.set(pid, true)
	if !ok && !strays && !lives && !seen {
		return
	}
	if seen {
		l.seen.set(pid, false)
		n.older = time + maxStraggle
	}
	if lives && time > n.ranOlder { // else what was taken for an older one's may be its end
		n.late = append(n.late, late{n.born, time})
	}
	if time <= n.ranLate {
		n.mixed.add(time)
	}
	n.born, n.over, n.doubt, n.ranOlder, n.ranLate = time, false, 0, 0, 0
	l.note(pid, n, strays)
}

// executed notes that a process runs, as it has executed.
func (l *living) executed(pid uint32) {
	l.pids.set(pid, true)
	if n, ok := l.numbers.In[pid]; ok {
		n.over = false
		l.numbers.Put(pid, n)
	}
}

// ended notes that the end of the latest process of a number was told, at a time. unsure is set if
// the message can be of another. strays is as for whose.
func (l *living) ended(pid uint32, time uint64, strays, unsure bool) {
	l.pids.set(pid, false)
	l.seen.set(pid, false)
	n, ok := l.numbers.In[pid]
	if !ok && !strays {
		return
	}
	n.over = true
	if unsure {
		n.mixed.add(time)
	}
	l.note(pid, n, strays)
}

// settleInterval is how often numbers are looked through at most, in ns.
const settleInterval = 100_000_000

// settle forgets what cannot matter any more, as no end of before a time comes.
func (l *living) settle(before uint64, strays bool) {
	if before < l.settled+settleInterval {
		return
	}
	l.settled = before
	l.tellLate(before)
	for pid, n := range l.numbers.In {
		if !strays && len(n.late) == 0 && max(n.born, n.older, n.doubt, n.ranLate, n.mixed.to) < before {
			delete(l.numbers.In, pid)
		}
	}
}

// tellLate tells the end of each process that is late and whose number was given again before a
// time: its message does not come any more.
func (l *living) tellLate(before uint64) {
	for pid, n := range l.numbers.In {
		for len(n.late) > 0 && n.late[0].next < before {
			l.tell(pid, n.late[0].next)
			n.mixed.add(n.late[0].next)
			n.late = n.late[1:]
			l.numbers.Put(pid, n)
		}
	}
}

// forget gives up what is known, after a loss that was noticed at a time. It returns the earliest
// stamp of an end that was taken for another, 0 for none: the other can be missing in its place.
func (l *living) forget(now uint64) (mixed uint64) {
	l.tellLate(math.MaxUint64)
	l.pids.clear()
	l.seen.clear()
	for pid, n := range l.numbers.In {
		if n.ranLate != 0 {
			n.mixed.add(n.born)
			n.mixed.add(n.ranLate)
		}
		if n.mixed.from == 0 && n.doubt == 0 {
			delete(l.numbers.In, pid)
			continue
		}
		if n.mixed.to+2*maxStraggle < now {
			n.mixed = span{}
		}
		l.numbers.Put(pid, number{doubt: now, mixed: n.mixed})
		mixed = soonest(mixed, n.mixed.from)
	}
	return mixed
}
