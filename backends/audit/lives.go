package audit

import "github.com/quark-linux/quark/engine"

// life is what is known of a process.
type life struct {
	at     uint64 // the stamp of what began it, or of the first that is known
	begun  bool   // its birth or exec was told
	single bool   // it has one thread: it has made none since
	exec   uint32 // the number of its exec, if that has begun it
	execed bool
	start  uint64 // as /proc has it, 0 if it was not read
	cred   engine.Credentials
	ids    bool   // cred is known, for calls that
	since  uint64 // begin later
	// other are ids that it may have instead of cred, if unsure is set.
	other  engine.Credentials
	unsure bool
}

// maxLives bounds how many processes are kept: nothing tells of those that a signal ends.
const maxLives = 1 << 16

// lives has the processes of which something was told, or that were there before, and whose end was
// not told.
type lives map[uint32]life

// read notes a process that is there before records tell of it, with what /proc showed at a time.
func (l lives) read(pid uint32, t *engine.Task, at uint64) {
	if t.Known.Has(engine.FieldStart) && t.Known&engine.FieldsIDs == engine.FieldsIDs && len(l) < maxLives {
		l[pid] = life{at: at, start: t.Start, cred: t.Cred, ids: true, since: at}
	}
}

// begin notes a birth or an exec, after which a process has one thread, and the start time of that,
// 0 if it is not known.
func (l lives) begin(pid uint32, e *event, start uint64) {
	if len(l) >= maxLives {
		clear(l)
	}
	// What is told of a child before its birth, whose call returns later, is as true as before.
	was := l[pid]
	early := e.isBirth() && !was.begun && was.at >= e.stamp && was.at != 0
	p := life{at: e.stamp, begun: true, single: !early, cred: e.cred, ids: e.hasIDs(), since: e.stamp,
		exec: e.serial, execed: !e.isBirth(), start: start}
	if early && was.ids {
		p.cred, p.ids, p.since = was.cred, true, was.since
	}
	l[pid] = p
}

// endedByExec reports whether a call was that of a thread which the exec that began this life has
// ended: stamps are of the begin of calls, and numbers of their end.
func (p *life) endedByExec(call *event) bool { return p.execed && int32(call.serial-p.exec) < 0 }

// of returns what is known of a process when a call is told.
func (l lives) of(pid uint32, at uint64) life {
	p, ok := l[pid]
	if !ok {
		if len(l) >= maxLives {
			clear(l)
		}
		p.at = at
	}
	return p
}

// thread notes that a process may have several threads.
func (l lives) thread(pid uint32, at uint64) {
	p := l.of(pid, at)
	p.single = false
	l[pid] = p
}

// changed notes the ids that a call left, of a process that started at a time. It reports whether
// they were others before, which is false also where that is not known: many a call changes
// nothing.
func (l lives) changed(e *event, start uint64) bool {
	p := l.of(e.pid, e.stamp)
	if p.start != 0 && p.start != start { // the number was used again
		p = life{at: e.stamp}
	}
	changed := p.since <= e.stamp && !p.mayHave(e.cred)
	p.start, p.cred, p.ids, p.since, p.unsure = start, e.cred, true, e.stamp, false
	l[e.pid] = p
	return changed
}

// doubt notes a call that is not told, and may have changed the ids of the leader all the same.
func (l lives) doubt(e *event) {
	p, ok := l[e.pid]
	known := e.hasIDs()
	if !ok || known && p.mayHave(e.cred) {
		return
	}
	p.ids = p.ids && known && !p.unsure
	p.other, p.unsure = e.cred, true
	l[e.pid] = p
}

// mayHave reports whether a leader may have ids, as far as is known of calls until now.
func (p *life) mayHave(ids engine.Credentials) bool {
	return !p.ids || p.cred == ids || p.unsure && p.other == ids
}
