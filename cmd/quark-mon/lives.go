package main

import (
	"slices"

	"github.com/quark-linux/quark"
)

// lives prints events as a tree: each below the process that forked its own, which is the nearest
// line above that is indented less. Where that is not in sight a line with the ancestors is put.
type lives struct {
	*screen
	q    *quark.Queue
	root int // the pid above which ancestors are of no interest, or 0
	// at has the processes that a child can be printed below, by their depth.
	at []quark.Identity
}

// maxDepth is how far a line is indented, in steps.
const maxDepth = 16

// Append appends the event, and before it the ancestors if the parent is not in sight.
func (l *lives) Append(b []byte, ev *quark.Event) []byte {
	l.Depth = 0
	if l.PageEnds() {
		l.at = l.at[:0]
	}
	if ev.Process == nil || ev.Events.Has(quark.EventGap|quark.EventGone) {
		return l.screen.Append(b, ev)
	}
	ancestors, whole := l.q.Ancestors(ev.Process)
	if len(ancestors) == 0 && !whole {
		ancestors = stranger(ev.Process)
	}
	if i := slices.IndexFunc(ancestors, func(p *quark.Process) bool { return int(p.PID) == l.root }); i >= 0 {
		ancestors, whole = ancestors[:i+1], true
	}
	if len(ancestors) > 0 {
		parent := identity(ancestors[0])
		l.Depth = slices.Index(l.at, parent) + 1
		if l.Depth == 0 || l.Depth > maxDepth {
			b = l.Ancestors(b, ancestors, whole)
			l.at = append(l.at[:0], parent)
			l.Depth = 1
		}
	}
	l.at = append(l.at[:l.Depth], identity(ev.Process))
	return l.screen.Append(b, ev)
}

// stranger returns the parent of p as far as it is known without the table: its pid, or nil.
func stranger(p *quark.Process) []*quark.Process {
	switch b := &p.Birth; {
	case b.Known.Has(quark.FieldPPID):
		return []*quark.Process{{PID: b.Parent.PID}}
	case p.Known.Has(quark.FieldPPID):
		return []*quark.Process{{PID: p.PPID}}
	}
	return nil
}

// identity returns the identity of p, without a start time if that is not known.
func identity(p *quark.Process) quark.Identity {
	id, known := p.Identity()
	if !known {
		id.Start = 0
	}
	return id
}
