package cnproc

import "github.com/quark-linux/quark/engine"

// loss counts missing messages. The socket counts the messages that it drops. Gaps in the sequence
// numbers of a CPU also reveal messages that the kernel had no memory to send.
//
// The socket reports an overrun once, before the messages in its queue, which are older than the
// loss. It drops every later message until the queue is empty. So the gap of an overrun is reported
// when the socket is empty, when a message has a later stamp than the report, or when the socket
// reports another overrun.
type loss struct {
	seq      sequence
	counted  uint64 // all messages dropped before this time are in gaps
	overrun  uint64 // time of the report of an overrun without a gap, 0 if there is none
	overruns uint64 // reports of overruns
	dropped  uint64 // messages that the socket dropped
	told     uint64 // messages that gaps have reported
	void     uint64 // ends that are counted as lost: the owner of their message is unknown
}

// saw counts a message. It returns the message's number on its CPU and the gap before it. The gap's
// Count is 0 if earlier gaps contain all missing messages.
func (l *loss) saw(m *message) (seq uint64, g engine.Gap) {
	seq, last := l.seq.saw(m.cpu, m.seq, m.time)
	if l.seq.gaps > l.told {
		g = engine.Gap{Cause: engine.LossSocketFull, CPU: m.cpu, From: last, To: m.time, Count: l.seq.gaps - l.told}
		l.told = l.seq.gaps
	}
	return seq, g
}

// gap returns a gap with the dropped messages that are in no earlier gap.
func (l *loss) gap(now func() uint64, drops func() uint64) engine.Gap {
	g := engine.Gap{Cause: engine.LossSocketFull, CPU: engine.AllCPUs, From: l.counted}
	l.counted, l.overrun = now(), 0
	l.dropped = drops()
	if g.To = now(); l.dropped > l.told {
		g.Count, l.told = l.dropped-l.told, l.dropped
	}
	return g
}

// total returns the known number of lost events.
func (l *loss) total() uint64 { return max(l.dropped, l.seq.gaps) + l.void }

// sequence finds lost messages by gaps in the kernel's sequence numbers: each CPU sends its
// messages in order.
type sequence struct {
	cpus []cpuSequence
	gaps uint64 // missing numbers
}

type cpuSequence struct {
	seen  bool
	first uint32 // number of the first message
	next  uint64 // expected number; the wire has its low 32 bits
	time  uint64 // time stamp of the latest message
}

// saw counts a message. It returns the message's number, extended to 64 bits, and the latest
// earlier time stamp of its CPU, or 0.
func (s *sequence) saw(cpu, seq uint32, time uint64) (n, last uint64) {
	for int(cpu) >= len(s.cpus) {
		s.cpus = append(s.cpus, cpuSequence{})
	}
	c := &s.cpus[cpu]
	last, c.time = c.time, max(c.time, time)
	if !c.seen {
		c.seen, c.first, c.next = true, seq, uint64(seq)
	}
	ahead := uint64(max(int32(seq-uint32(c.next)), 0))
	s.gaps += ahead
	c.next += ahead + 1
	return c.next - 1, last
}
