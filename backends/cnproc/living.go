package cnproc

import "math"

// living knows which processes were born, or have executed, since the last loss and have not ended:
// all their messages since come. After a loss nobody can say whose a message is, so nothing of
// before counts.
//
// It says of which process the end of a leader is. A process that ends wakes its parent before it
// makes its message: the parent may have reaped it, and its number may be another's, when the
// message is made, or comes. On a kernel with PREEMPT_RT that is the rule where a parent takes the
// same number again. But the kernel gives the parent's number only of one that had not been reaped
// when the message was stamped: then it is of the process that had the number at that time. See
// message.reaped.
type living struct {
	pids bits
	seen bits // others that were in /proc at the latest look and whose end has not come

	// numbers has what is known of a number that can have ends of several processes to come.
	numbers map[uint32]number
	settled uint64 // when they were looked through
}

// number is what is known of a number while ends of several of its processes can come.
type number struct {
	born  uint64 // birth of the latest process, 0 for unknown
	over  bool   // its end was told
	mixed span   // stamps of ends that were taken for one of several that they could be
	older uint64 // until when the end can come of one that the look has shown, 0 for none
	doubt uint64 // ends that were stamped before may have been told, 0 for none
	// Looks that showed that the latest process runs, so that an end was not its: what was seen
	// can be one that was born since. The end was taken for an older one's, or for that of a
	// late one.
	turned, taken uint64
	late          []late // processes before it that have not sent their ends, in their order
}

// span are the times from the earliest to the latest of some; the zero value is of none.
type span struct{ from, to uint64 }

func (s *span) add(from, to uint64) {
	if from != 0 {
		s.from, s.to = soonest(s.from, from), max(s.to, to)
	}
}

// with returns s with another time.
func (s span) with(time uint64) span {
	s.add(time, time)
	return s
}

// late is a process whose number was given again before its end came.
type late struct{ born, next uint64 }

// pidsPerChunk are so many that few chunks are in use; PID_MAX_LIMIT is 1 << 22.
const pidsPerChunk = 1 << 12

// bits is a set of processes.
type bits [1 << 22 / pidsPerChunk]*[pidsPerChunk / 64]uint64

// bit returns where the bit of a process is, nil if there can be no such process.
func (b *bits) bit(pid uint32) (word *uint64, mask uint64) {
	i := pid / pidsPerChunk
	if int(i) >= len(b) {
		return nil, 0
	}
	if b[i] == nil {
		b[i] = new([pidsPerChunk / 64]uint64)
	}
	return &b[i][pid%pidsPerChunk/64], 1 << (pid % 64)
}

func (b *bits) set(pid uint32, in bool) {
	switch word, mask := b.bit(pid); {
	case word == nil:
	case in:
		*word |= mask
	default:
		*word &^= mask
	}
}

func (b *bits) has(pid uint32) bool {
	word, mask := b.bit(pid)
	return word != nil && *word&mask != 0
}

func (b *bits) clear() {
	for _, chunk := range b {
		if chunk != nil {
			clear(chunk[:])
		}
	}
}

// has reports whether a process is in the set.
func (l *living) has(pid uint32) bool { return l.pids.has(pid) }

// born notes the birth of a process at a time. strays is set if ends of processes can come that had
// the number before and that no message has told of.
func (l *living) born(pid uint32, time uint64, strays bool) {
	n, ok := l.numbers[pid]
	lives, seen := l.has(pid), l.seen.has(pid)
	l.pids.set(pid, true)
	if !ok && !strays && !lives && !seen {
		return
	}
	if seen {
		l.seen.set(pid, false)
		n.older = time + maxStraggle
	}
	if lives && time > n.turned { // else the end that was turned away may have been its end
		n.late = append(n.late, late{n.born, time})
	}
	if time <= n.taken {
		n.mixed.add(time, time)
	}
	n.born, n.over, n.doubt, n.turned, n.taken = time, false, 0, 0, 0
	l.note(pid, n, strays)
}

// note keeps what is known of a number, unless no end of it can come.
func (l *living) note(pid uint32, n number, strays bool) {
	if n.over && len(n.late) == 0 && n.older == 0 && !strays {
		delete(l.numbers, pid)
		return
	}
	if l.numbers == nil {
		l.numbers = make(map[uint32]number)
	}
	l.numbers[pid] = n
}

// executed notes that a process runs, as it has executed.
func (l *living) executed(pid uint32) {
	l.pids.set(pid, true)
	if n, ok := l.numbers[pid]; ok {
		n.over = false
		l.numbers[pid] = n
	}
}

// ended notes that the end of the latest process of a number was told. unsure is the stamp of its
// message if that can be of another, 0 if not.
func (l *living) ended(pid uint32, strays bool, unsure uint64) {
	l.pids.set(pid, false)
	l.seen.set(pid, false)
	n, ok := l.numbers[pid]
	if ok || strays {
		n.over = true
		n.mixed.add(unsure, unsure)
		l.note(pid, n, strays)
	}
}

// owner is the process that the end of a leader is of.
type owner uint8

const (
	ofLatest owner = iota // the one that has the number, or had it last
	ofLate                // one of before, whose end was not told
	ofOlder               // one of before that no message has told of
	ofTold                // one whose end was told
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

// whose says of which process the end of a leader is. strays is set if it can be of one that no
// message has told of and that had the number before, lost if there was a loss. runs reports
// whether a process of the number is seen to run now, and when.
func (l *living) whose(m *message, strays, lost bool, runs func() (now uint64, ok bool)) verdict {
	n := l.numbers[m.pid]
	strays = strays || m.time <= n.older
	of := m.time > max(n.born, n.doubt) // the message can be of the latest
	latest := !n.over || m.again
	switch {
	case !m.reaped() && latest && of:
		return verdict{known: true}
	case !m.reaped() && m.time <= n.born:
		for i, p := range n.late {
			if p.born < m.time && m.time < p.next {
				return l.take(m, n, i, true, strays)
			}
		}
	}
	// If it is not, the latest's may have been taken for that of another. A process whose birth
	// was not seen since a loss may have been told of, and nothing tells that from another of
	// before.
	latest = latest && (of || n.mixed.from != 0 && (m.reaped() || !strays)) && (!m.reaped() || m.again || !strays || !lost || l.has(m.pid))
	could := len(n.late)
	if strays {
		could++
	}
	seen := uint64(0)
	if latest && could > 0 {
		if now, ok := runs(); ok {
			latest, seen = false, now
		}
	}
	switch {
	case len(n.late) > 0:
		// One of them has ended, whosever the message is.
		n.taken = max(n.taken, seen)
		v := l.take(m, n, 0, could == 1 && !latest && n.mixed.from == 0 && m.reaped(), strays)
		v.seen = seen
		return v
	case latest:
		return verdict{known: n.mixed.from == 0, unsure: strays, lost: n.mixed.with(m.time), seen: n.taken}
	case strays:
		if n.turned = max(n.turned, seen); seen == 0 && n.mixed.from != 0 {
			n.turned = math.MaxUint64 // the latest's end may be the one that is missing
		}
		l.note(m.pid, n, true)
		return verdict{owner: ofOlder, lost: n.mixed.with(m.time)}
	}
	return verdict{owner: ofTold}
}

// take takes a message for the end of one of those that are late.
func (l *living) take(m *message, n number, i int, known, strays bool) verdict {
	v := verdict{owner: ofLate, next: n.late[i].next, known: known}
	n.late = append(n.late[:i:i], n.late[i+1:]...)
	if !known {
		n.mixed.add(m.time, m.time)
	}
	l.note(m.pid, n, strays)
	return v
}

// settleInterval is how often numbers are looked through at most, in ns.
const settleInterval = 100_000_000

// settle forgets what cannot matter any more, as no end of before a time comes. It tells of
// processes as tell does.
func (l *living) settle(before uint64, strays bool, told func(pid uint32, next uint64)) {
	if before < l.settled+settleInterval {
		return
	}
	l.settled = before
	l.tell(before, told)
	for pid, n := range l.numbers {
		if !strays && len(n.late) == 0 && max(n.born, n.older, n.doubt, n.taken, n.mixed.to) < before {
			delete(l.numbers, pid)
		}
	}
}

// tell calls told for each process that is late whose number was given again before a time, and
// takes its end for one that was told.
func (l *living) tell(before uint64, told func(pid uint32, next uint64)) {
	for pid, n := range l.numbers {
		for len(n.late) > 0 && n.late[0].next < before {
			told(pid, n.late[0].next)
			n.mixed.add(n.late[0].next, n.late[0].next)
			n.late = n.late[1:]
			l.numbers[pid] = n
		}
	}
}

// forget empties the set, after a loss that was noticed at a time. It returns the earliest stamp of
// an end that was taken for another, 0 for none: the other can be missing in its place.
func (l *living) forget(now uint64) (mixed uint64) {
	l.pids.clear()
	l.seen.clear()
	for pid, n := range l.numbers {
		if n.taken != 0 {
			n.mixed.add(n.born, n.taken)
		}
		if n.mixed.from == 0 && len(n.late) == 0 && n.doubt == 0 {
			delete(l.numbers, pid)
			continue
		}
		if n.mixed.to+2*maxStraggle < now {
			n.mixed = span{}
		}
		l.numbers[pid] = number{doubt: now, mixed: n.mixed}
		mixed = soonest(mixed, n.mixed.from)
	}
	return mixed
}
