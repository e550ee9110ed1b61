package cnproc

// living knows which processes were born and have not sent the exit message of
// their leader. A process that ends wakes its parent before it sends that, so the
// parent may have reaped it and its number may be another's when it comes: on a
// kernel with PREEMPT_RT it is so as a rule where a parent takes the number again.
// Only what was seen to be born counts, and nothing after a loss: then nobody can
// say whose the message is.
type living struct {
	pids [1 << 22 / pidsPerChunk]*[pidsPerChunk / 64]uint64 // a bit for each

	// When numbers were given again before their last owner's exit message, which
	// is still to come, in the order of the births.
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

// ended notes the exit message of a leader, made at a time, and returns when the
// process it is about had ended: before its number was given to another.
func (l *living) ended(pid uint32, time uint64) uint64 {
	if next := l.overtaken[pid]; len(next) > 0 {
		time = min(time, next[0]-1)
		if l.overtaken[pid] = next[1:]; len(next) == 1 {
			delete(l.overtaken, pid)
		}
		return time
	}
	if word, mask := l.bit(pid); word != nil {
		*word &^= mask
	}
	return time
}

// forget is for when a message may have been lost.
func (l *living) forget() {
	for _, chunk := range l.pids {
		if chunk != nil {
			clear(chunk[:])
		}
	}
	clear(l.overtaken)
}
