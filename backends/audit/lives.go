package audit

import "github.com/quark-linux/quark/engine"

// life is what is known of a process whose birth or exec was told.
type life struct {
	single bool // it has one thread: it has made none since
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
	l[pid] = life{single: true, cred: e.cred, ids: e.has&engine.FieldsIDs == engine.FieldsIDs}
}

// thread notes that a process may have several threads.
func (l lives) thread(pid uint32) {
	if p, ok := l[pid]; ok {
		p.single = false
		l[pid] = p
	}
}

// ids notes ids, and reports whether they were the same before.
func (l lives) same(pid uint32, c engine.Credentials) bool {
	p, ok := l[pid]
	same := ok && p.ids && p.cred == c
	if ok {
		p.cred, p.ids = c, true
		l[pid] = p
	}
	return same
}
