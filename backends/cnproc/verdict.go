package cnproc

// codes gathers the wait statuses that the threads of a group ended with, to
// tell that of the group. The kernel keeps the group's own status where no
// message shows it:
//
//   - exit_group(2) and fatal signals set it, and every thread that is not on its
//     way out already ends with the same;
//   - otherwise each thread ends by exit(2) with its own code, and the group has
//     that of the thread that was last to begin, since Linux 6.0, or of the leader,
//     before (SIGNAL_GROUP_EXIT is then never set).
type codes struct {
	leader  int32 // valid when the leader has ended
	last    int32
	nonzero int32 // the first that is not 0, 0 while there is none
	signal  int32 // one with a signal, 0 while there is none
	n       uint32
	zero    bool   // one was 0
	many    bool   // there are different ones that are not 0
	time    uint64 // of the last exit
	before  uint64 // of the last exit whose status is not last
	since   uint64 // of the exit after that
}

// settleTime, in ns, is how much later than exits with another status an exit
// must come to be taken for later. Threads that end at the same time may send
// their messages in another order than they began to end in.
const settleTime = 10_000_000

func (c *codes) add(m *message) {
	s := int32(m.status)
	if c.n == 0 || s != c.last {
		c.before, c.since, c.last = c.time, m.time, s
	}
	c.n++
	c.time = m.time
	switch {
	case s == 0:
		c.zero = true
	case c.nonzero == 0:
		c.nonzero = s
	case c.nonzero != s:
		c.many = true
	}
	if s&0x7f != 0 {
		c.signal = s
	}
}

// plain reports whether all ended with 0.
func (c *codes) plain() bool { return c.nonzero == 0 }

// verdict returns the status of the group, and whether that is certain.
func (c *codes) verdict(last6 bool) (status int32, known bool) {
	switch {
	case c.signal != 0:
		return c.signal, true // no exit(2) can look like a signal
	case !c.many && !(c.zero && c.nonzero != 0):
		return c.last, true // all the same
	case c.last == 0:
		// Either exit_group with another status overtook a thread that was
		// ending by itself, or a thread ended by itself with a status that is not 0.
		return 0, false
	case !c.many:
		// The others ended with 0, as threads do that end by themselves.
		return c.last, last6 || c.leader == c.last
	}
	return c.last, last6 && c.since >= c.before+settleTime
}
