package cnproc

import "math"

// living is the set of processes that were seen to be born since the last loss and whose
// leader has not sent its exit message. A process that ends wakes its parent before it
// sends that: the parent may have reaped it, and its number may be another's, when the
// message comes. On a kernel with PREEMPT_RT that is the rule where a parent takes the
// same number again. After a loss nobody can say whose a message is, so nothing of before
// counts.
type living struct {
	pids [1 << 22 / pidsPerChunk]*[pidsPerChunk / 64]uint64 // a bit for each

	// overtaken has, for a number that was given again before the exit message of its
	// last owner came, the times of those births, in their order.
	overtaken map[uint32][]uint64
}

// pidsPerChunk are so many that few chunks are in use; PID_MAX_LIMIT is 1 << 22.
const pidsPerChunk = 1 << 12

// bit returns where the bit of a process is, nil if there can be no such process.
func (l *living) bit(pid uint32) (word *uint64, mask uint64) {
	i := pid / pidsPerChunk
	if int(i) >= len(l.pids) {
		return nil, 0
	}
	if l.pids[i] == nil {
		l.pids[i] = new([pidsPerChunk / 64]uint64)
	}
	return &l.pids[i][pid%pidsPerChunk/64], 1 << (pid % 64)
}

// born notes the birth of a process at a time.
func (l *living) born(pid uint32, time uint64) {
	word, mask := l.bit(pid)
	if word == nil {
		return
	}
	if *word&mask != 0 {
		if l.overtaken == nil {
			l.overtaken = make(map[uint32][]uint64)
		}
		l.overtaken[pid] = append(l.overtaken[pid], time)
	}
	*word |= mask
}

// ended notes the exit message of a leader, and returns the latest time at which its process can
// have ended: before its number was given to another.
func (l *living) ended(pid uint32) (latest uint64) {
	if next := l.overtaken[pid]; len(next) > 0 {
		if l.overtaken[pid] = next[1:]; len(next) == 1 {
			delete(l.overtaken, pid)
		}
		return next[0] - 1
	}
	if word, mask := l.bit(pid); word != nil {
		*word &^= mask
	}
	return math.MaxUint64
}

// has reports whether a process is in the set.
func (l *living) has(pid uint32) bool {
	word, mask := l.bit(pid)
	return word != nil && *word&mask != 0
}

// forget empties the set, after a loss.
func (l *living) forget() {
	for _, chunk := range l.pids {
		if chunk != nil {
			clear(chunk[:])
		}
	}
	clear(l.overtaken)
}
