package audit

import "github.com/quark-linux/quark/engine"

// life is what is known of a process whose birth or exec was told.
type life struct {
	at     uint64 // the stamp of what began it
	begun  bool   // its birth or exec was told, else there is only that it has made a thread
	single bool   // it has one thread: it has made none since
	exec   uint32 // the number of its exec, if that has begun it
	execed bool
	cred   engine.Credentials
	ids    bool // cred is known
}

// maxLives bounds how many processes are kept: nothing tells of those that a signal ends.
const maxLives = 1 << 16

// lives has the processes whose birth or exec was told, and whose end was not.
type lives map[uint32]life

// begin notes a birth or an exec, after which a process has one thread.
func (l lives) begin(pid uint32, e *event) {
	if len(l) >= maxLives {
		clear(l)
	}
	// What is told of a child before its birth, whose call returns later, is as true as before.
	several := e.isBirth() && !l[pid].begun && l[pid].at >= e.stamp && l[pid].at != 0
	l[pid] = life{at: e.stamp, begun: true, single: !several, cred: e.cred, ids: e.has&engine.FieldsIDs == engine.FieldsIDs,
		exec: e.serial, execed: !e.isBirth()}
}

// endedByExec reports whether a call was that of a thread which the exec that began this life has
// ended: stamps are of the begin of calls, and numbers of their end.
func (p *life) endedByExec(call *event) bool { return p.execed && int32(call.serial-p.exec) < 0 }

// thread notes that a process may have several threads.
func (l lives) thread(pid uint32, at uint64) {
	p, ok := l[pid]
	if !ok {
		if len(l) >= maxLives {
			clear(l)
		}
		p.at = at
	}
	p.single = false
	l[pid] = p
}

// same notes ids, and reports whether they were the same before.
func (l lives) same(pid uint32, c engine.Credentials) bool {
	p, ok := l[pid]
	same := ok && p.ids && p.cred == c
	if ok {
		p.cred, p.ids = c, true
		l[pid] = p
	}
	return same
}
