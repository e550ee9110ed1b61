package main

import (
	"slices"

	"github.com/quark-linux/quark"
)

// treePrinter prints events as a tree. Each event is below the line of the parent, the nearest line
// above with less indentation. If that line is not visible, a line with the ancestors precedes the
// event.
type treePrinter struct {
	*screen
	q    *quark.Queue
	root int // pid whose ancestors are not shown, or 0
	// at has, by depth, the processes whose children can be printed without a line of
	// ancestors.
	at []quark.Identity
}

// maxDepth limits the indentation of a line, in steps.
const maxDepth = 16

// Append appends the event. If the parent is not visible, it first appends the ancestors.
func (l *treePrinter) Append(b []byte, ev *quark.Event) []byte {
	l.Depth = 0
	if l.PageEnds() {
		l.at = l.at[:0]
	}
	if ev.Process == nil || ev.Events.Has(quark.EventGap|quark.EventGone) {
		return l.screen.Append(b, ev)
	}
	ancestors, whole := l.q.Ancestors(ev.Process)
	if len(ancestors) == 0 && !whole {
		ancestors = parentOnly(ev.Process)
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

// parentOnly returns the parent of a process that is not in the table: a process with only a pid,
// or nil.
func parentOnly(p *quark.Process) []*quark.Process {
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
