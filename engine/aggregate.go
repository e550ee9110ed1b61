package engine

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// Join is the rule for an event of one kind after an earlier event of the same pid.
type Join uint8

// The rules of joining.
const (
	JoinNever      Join = iota
	JoinOnce            // unless an event of the same kind has joined already
	JoinAlways          // any number
	JoinForkExec        // once, and not after an id change, except of the process group alone
	JoinBeforeExec      // any number, and not after an EXEC
)

func (j Join) String() string {
	return nameOf(j, "-", "once", "always", "once, no ids", "before EXEC")
}

// nameOf returns the name of v. It returns the number for a value that only a newer version names.
func nameOf[T ~uint8](v T, names ...string) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("unknown_%d", v)
}

// Matrix holds the rules of aggregation: Matrix[head][next] is the rule for an event of kind next
// after an event that began with kind head.
type Matrix [NumKinds][NumKinds]Join

// String prints the rules as a table: a row for each kind that other kinds join, a column for each
// kind that joins.
func (m *Matrix) String() string {
	var heads, nexts []Kind
	for a := range Kind(NumKinds) {
		isHead, isNext := false, false
		for b := range Kind(NumKinds) {
			isHead = isHead || m[a][b] != JoinNever
			isNext = isNext || m[b][a] != JoinNever
		}
		if isHead {
			heads = append(heads, a)
		}
		if isNext {
			nexts = append(nexts, a)
		}
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "first")
	for _, next := range nexts {
		fmt.Fprintf(w, "\t%s", next)
	}
	for _, head := range heads {
		fmt.Fprintf(w, "\n%s", head)
		for _, next := range nexts {
			fmt.Fprintf(w, "\t%s", m[head][next])
		}
	}
	w.Flush()
	return b.String()
}

// DefaultMatrix joins all events of a short process into one. Two EXECs never join, nor do an EXEC
// and an ID_CHANGE: each image is reported with the ids that it began with.
func DefaultMatrix() *Matrix {
	m := MinimalMatrix()
	m[KindFork][KindExec] = JoinForkExec
	m[KindFork][KindIDChange] = JoinBeforeExec
	for _, head := range []Kind{KindFork, KindExec, KindSetProcTitle} {
		m[head][KindExit] = JoinOnce
	}
	for _, head := range []Kind{KindFork, KindExec} {
		m[head][KindCoreDump] = JoinOnce
	}
	return m
}

// MinimalMatrix joins only repetitions of the same change and the comm that a
// new process or image gives itself; [Options.MinAgg] selects it.
func MinimalMatrix() *Matrix {
	m := new(Matrix)
	m[KindFork][KindSetProcTitle] = JoinAlways
	m[KindExec][KindSetProcTitle] = JoinAlways
	m[KindSetProcTitle][KindSetProcTitle] = JoinAlways
	m[KindIDChange][KindIDChange] = JoinAlways
	return m
}

// check returns an error if m has an undefined rule.
func (m *Matrix) check() error {
	for head, row := range m {
		for next, rule := range row {
			if rule > JoinBeforeExec {
				return fmt.Errorf("the rule of %s after %s is %s", Kind(next), Kind(head), rule)
			}
		}
	}
	return nil
}

// joins reports whether next may join an event. The event began with head, has the kinds in joined,
// and left the process as p.
func (m *Matrix) joins(head, next *RawEvent, joined Events, p *process) bool {
	if m[head.Kind][next.Kind] == JoinNever || head.Thread || next.Thread {
		return false
	}
	if head.Task.Known.Has(FieldStart) && next.Task.Known.Has(FieldStart) && !head.Task.sameStart(&next.Task) {
		return false // the pid was reused
	}
	if p.idsDiffer(next) { // as after an unseen ID_CHANGE
		if !m.allows(head.Kind, KindIDChange, joined) {
			return false
		}
		joined |= EventIDChange
	}
	return m.allows(head.Kind, next.Kind, joined)
}

// idsDiffer reports whether r shows that another event changed ids, capabilities or similar fields
// since p. For an EXEC only the real ids count: the exec sets the others, and a shell sets the
// group of each command before its exec.
func (p *process) idsDiffer(r *RawEvent) bool {
	known, o, n := p.Known&r.Task.Known, &p.Cred, &r.Task.Cred
	switch r.Kind {
	case KindIDChange:
		return false
	case KindExec:
		return known.Has(FieldUIDs) && o.UID != n.UID || known.Has(FieldGIDs) && o.GID != n.GID
	}
	return p.differs(&r.Task.Inherited, known) || known.Has(FieldPGID) && p.PGID != r.Task.PGID || known.Has(FieldSID) && p.SID != r.Task.SID
}

// allows reports whether the rules allow next to join an event that began with head and has the
// kinds in joined.
func (m *Matrix) allows(head, next Kind, joined Events) bool {
	switch m[head][next] {
	case JoinOnce:
		return joined&next.Events() == 0
	case JoinAlways:
		return true
	case JoinForkExec:
		return joined&(next.Events()|EventIDChange) == 0
	case JoinBeforeExec:
		return joined&EventExec == 0
	}
	return false
}
