package main

import (
	"slices"

	"github.com/quark-linux/quark"
)

// lives prints events as a tree. Each event is below its process's parent: the nearest line above
// with less indentation. If that line is not visible, a line with the ancestors precedes the event.
type lives struct {
	*screen
	q    *quark.Queue
	root int // the pid above which ancestors are of no interest, or 0
	// at has the processes under which a child can be printed, by depth.
	at []quark.Identity
}

// maxDepth limits the indentation of a line, in steps.
const maxDepth = 16

// Append appends the event. If the parent is not visible, it first appends the ancestors.
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

// stranger returns the parent of p without the table: a process with only the pid, or nil.
func stranger(p *quark.Process) []*quark.Process {
	switch b := &p.Birth; {
	case b.Known.Has(quark.FieldPPID):
		return []*quark.Process{{PID: b.Parent.PID}}
	case p.Known.Has(quark.FieldPPID):
		return []*quark.Process{{PID: p.PPID}}
	}
	return nil
}

// identity returns the identity of p. An unknown start time is 0.
func identity(p *quark.Process) quark.Identity {
	id, known := p.Identity()
	if !known {
		id.Start = 0
	}
	return id
}
