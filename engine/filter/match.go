package filter

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/engine/glob"
)

// truth is the result of a term for an event. "and" is the minimum of two results, "or" the
// maximum.
type truth uint8

const (
	no truth = iota
	unknown
	yes
)

func truthOf(b bool) truth {
	if b {
		return yes
	}
	return no
}

// node is a part of a compiled expression.
type node interface {
	eval(m *Matcher, ev *engine.Event) truth
}

// word is the beginning of a term, for error messages.
type word string

func (w word) name() string { return string(w) }

type (
	allOf  []node
	oneOfs []node
	not    struct{ node }

	kindTerm   engine.Events
	failedTerm struct{}
	threadTerm struct{}
	anyTerm    struct{}

	// numberTerm is true if the value is in one of the ranges. With none, it is true if the
	// value is in no range.
	numberTerm struct {
		*numberField
		in   []interval
		none bool
		word
	}

	// textTerm is true if the value is one of the texts or matches one of the patterns. With
	// none, it is true if neither holds.
	textTerm struct {
		*textField
		patterns
		word
	}
	listTerm struct {
		*listField
		patterns
		word
	}

	// setTerm is true if the value has one of the bits, or is empty. With none, the result is
	// inverted.
	setTerm struct {
		*setField
		bits        uint
		empty, none bool
		word
	}

	stateTerm struct {
		word
		fields engine.Fields
		cached bool
	}

	// markTerm is true if the process is in the tree of one of these pids, or has one of these
	// tags. With none, the result is inverted.
	markTerm struct {
		word
		pids []uint32
		tags []string
		none bool
	}
)

type interval struct{ from, to uint64 }

func (i interval) has(v uint64) bool { return i.from <= v && v <= i.to }

type patterns struct {
	texts []string
	globs []glob.Glob
	none  bool
}

func (all allOf) eval(m *Matcher, ev *engine.Event) truth {
	t := yes
	for _, n := range all {
		if t = min(t, n.eval(m, ev)); t == no {
			break
		}
	}
	return t
}

func (any oneOfs) eval(m *Matcher, ev *engine.Event) truth {
	t := no
	for _, n := range any {
		if t = max(t, n.eval(m, ev)); t == yes {
			break
		}
	}
	return t
}

func (n not) eval(m *Matcher, ev *engine.Event) truth { return yes - n.node.eval(m, ev) }

// otherwise returns t, or the opposite of t if none is set.
func (t truth) otherwise(none bool) truth {
	if none {
		return yes - t
	}
	return t
}

func (k kindTerm) eval(_ *Matcher, ev *engine.Event) truth {
	return truthOf(ev.Events.Has(engine.Events(k)))
}

func (failedTerm) eval(_ *Matcher, ev *engine.Event) truth {
	switch p := ev.Process; {
	case ev.Events.Has(fails):
		return yes
	case !ev.Events.Has(ends):
		return no
	case !p.Known.Has(engine.FieldExit):
		return unknown
	default:
		return truthOf(p.Task.Exit.WaitStatus != 0)
	}
}

func (threadTerm) name() string { return "thread" }

func (threadTerm) eval(_ *Matcher, ev *engine.Event) truth { return truthOf(ev.Thread) }

func (anyTerm) eval(*Matcher, *engine.Event) truth { return yes }

// has reports whether an event is of one of these kinds. 0 stands for all kinds.
func has(ev *engine.Event, of engine.Events) bool { return of == 0 || ev.Events.Has(of) }

func (n *numberTerm) eval(m *Matcher, ev *engine.Event) truth {
	switch p := ev.Process; {
	case !has(ev, n.of):
		return no
	case n.fields&^p.Known != 0 || n.fields == 0 && m.anyFields:
		if n.fields&ofPrograms != 0 && p.IsKernelThread() {
			return no
		}
		return unknown
	}
	least, most, ok := n.get(m, ev)
	if !ok {
		return no
	}
	t := no
	for _, in := range n.in {
		switch {
		case in.has(least) && in.has(most):
			return yes.otherwise(n.none)
		case least <= in.to && in.from <= most:
			t = unknown
		}
	}
	return t.otherwise(n.none)
}

func (t *textTerm) eval(m *Matcher, ev *engine.Event) truth {
	switch p := ev.Process; {
	case !has(ev, t.of):
		return no
	case t.fields&^p.Known != 0:
		if t.ofImage && p.IsKernelThread() {
			return truthOf(t.has("")).otherwise(t.none)
		}
		return unknown
	}
	s, ok := t.get(m, ev)
	if !ok {
		return unknown
	}
	return truthOf(t.has(s)).otherwise(t.none)
}

func (t *setTerm) eval(m *Matcher, ev *engine.Event) truth {
	var bits uint
	switch p := ev.Process; {
	case !has(ev, t.of):
		return no
	case t.fields == 0 && m.anyFields:
		return unknown
	case t.fields&^p.Known == 0:
		bits = t.get(ev)
	case !p.IsKernelThread():
		return unknown
	}
	return truthOf(bits&t.bits != 0 || t.empty && bits == 0).otherwise(t.none)
}

func (p *patterns) has(s string) bool {
	if slices.Contains(p.texts, s) {
		return true
	}
	for i := range p.globs {
		if p.globs[i].Match(s) {
			return true
		}
	}
	return false
}

func (t *listTerm) eval(_ *Matcher, ev *engine.Event) truth {
	p := ev.Process
	switch {
	case t.fields&^p.Known == 0:
	case p.IsKernelThread():
		return no.otherwise(t.none)
	default:
		return unknown
	}
	// The list does not change during the evaluation.
	all := t.get(p)
	return t.oneOf(unsafe.String(unsafe.SliceData(all), len(all)), p.Truncated&t.fields != 0).otherwise(t.none)
}

// oneOf tests each text of a list. If the list was cut, its last text may be cut, and further texts
// may be missing.
func (t *listTerm) oneOf(rest string, cut bool) truth {
	for rest != "" {
		text, after, _ := strings.Cut(rest, "\x00")
		if cut && after == "" {
			break
		}
		if value, ok := strings.CutPrefix(text, t.prefix); ok && t.has(value) {
			return yes
		}
		rest = after
	}
	if cut {
		return unknown
	}
	return no
}

func (s stateTerm) eval(m *Matcher, ev *engine.Event) truth {
	if m.anyFields {
		return unknown
	}
	known := ev.Process.Known
	if s.cached {
		return truthOf(ev.Process.Cached&known&s.fields != 0)
	}
	missing := s.fields &^ known
	return truthOf(missing == 0 || missing&^ofPrograms == 0 && ev.Process.IsKernelThread())
}

// ofPrograms are the fields that a kernel thread is known to lack.
const ofPrograms = engine.Fields(1<<engine.FieldExe | 1<<engine.FieldArgs | 1<<engine.FieldExeFile | 1<<engine.FieldExecPath |
	1<<engine.FieldEnviron | 1<<engine.FieldPrivileges | 1<<engine.FieldStdio)

func (t *markTerm) eval(m *Matcher, ev *engine.Event) truth {
	if m.anyFields {
		return unknown
	}
	var bits uint32
	for _, pid := range t.pids {
		bits |= 1 << slices.Index(m.trees, pid)
	}
	for _, tag := range t.tags {
		bits |= m.markOf(tag)
	}
	switch marks := &ev.Process.Marks; {
	case marks.Set&bits != 0:
		return yes.otherwise(t.none)
	case marks.Maybe&bits != 0:
		return unknown
	}
	return no.otherwise(t.none)
}

// Filter selects the events to deliver. Several queues may share it.
type Filter struct {
	conditions []node
	rules      [][]rule
	trees      []uint32 // pids; the index of a tree is its mark
	tags       []string // tags that rules give; their marks follow those of the trees
	tagTerms   []string // the tags in terms
	variables  []string
	paths      []Path
}

// Path is a text or a pattern with which an expression compares exe or cwd. It may be only the name
// of an executable.
type Path struct{ Field, Value string }

// Paths returns the paths in the expressions of f. f may be nil.
func (f *Filter) Paths() []Path {
	if f == nil {
		return nil
	}
	return f.paths
}

// Variables returns the names of the environment variables in the terms of f. f may be nil.
func (f *Filter) Variables() []string {
	if f == nil {
		return nil
	}
	return f.variables
}

// And returns a filter that lets an event pass if all given filters do. It ignores nil filters, and
// returns nil if all are nil.
func And(filters ...*Filter) *Filter {
	var all *Filter
	for _, f := range filters {
		if f == nil {
			continue
		}
		if all == nil {
			all = new(Filter)
		}
		all.conditions = append(all.conditions, f.conditions...)
		all.rules = append(all.rules, f.rules...)
		addNew(&all.trees, f.trees...)
		addNew(&all.tags, f.tags...)
		addNew(&all.tagTerms, f.tagTerms...)
		all.variables = append(all.variables, f.variables...)
		all.paths = append(all.paths, f.paths...)
	}
	return all
}

// addNew adds those values to a list that the list does not have yet.
func addNew[T comparable](list *[]T, values ...T) {
	for _, v := range values {
		if !slices.Contains(*list, v) {
			*list = append(*list, v)
		}
	}
}

// maxMarks is the largest number of marks.
const maxMarks = 32

// Matcher applies a filter to the events of one queue. It remembers the root process of each tree.
type Matcher struct {
	*Filter
	clock  *engine.Clock
	rooted uint32 // marks of the trees whose root was found
	passed []string

	cached bool
	cgroup string
	of     engine.Container // container of cgroup

	id []byte // last result of entityID

	// anyFields is set for Check: any field may be known or not; pid and marks are unknown.
	anyFields bool
}

// Matcher returns a matcher for a queue with this clock. It returns an error if the filter has more
// than 32 trees and tags, or if a term has a tag that no rule gives.
func (f *Filter) Matcher(clock *engine.Clock) (*Matcher, error) {
	m := &Matcher{Filter: f, clock: clock}
	if len(f.trees)+len(f.tags) > maxMarks {
		return nil, errors.New("the filter names more than 32 trees and tags")
	}
	for _, tag := range f.tagTerms {
		if !slices.Contains(f.tags, tag) {
			return nil, fmt.Errorf("no rule gives the tag %s: add \"tag %[1]s if ...\"", tag)
		}
	}
	return m, nil
}

// Tags returns the names of the marks, for [engine.Options.Tags], or nil if there are none.
func (m *Matcher) Tags() []string {
	if len(m.tags) == 0 {
		return nil
	}
	return append(make([]string, len(m.trees)), m.tags...)
}

// markOf returns the mark of a tag.
func (m *Matcher) markOf(tag string) uint32 { return 1 << (len(m.trees) + slices.Index(m.tags, tag)) }

// Judge decides whether to deliver an event, for [engine.Options.Judge]. It sets the event's Rules,
// which are valid until the next call.
func (m *Matcher) Judge(ev *engine.Event) engine.Verdict {
	p := ev.Process
	if !ev.Thread {
		for i, pid := range m.trees {
			if pid == p.PID && m.rooted&(1<<i) == 0 {
				m.rooted |= 1 << i
				p.Marks.Set |= 1 << i
				p.Marks.Maybe &^= 1 << i
			}
		}
	}
	verdict := engine.VerdictPass
	m.passed = m.passed[:0]
	for _, rules := range m.rules {
		verdict = max(verdict, m.decide(rules, ev))
	}
	if verdict != engine.VerdictDrop {
		switch allOf(m.conditions).eval(m, ev) {
		case no:
			verdict = engine.VerdictDrop
		case unknown:
			verdict = engine.VerdictUnsure
		}
	}
	if ev.Rules = nil; verdict != engine.VerdictDrop && len(m.passed) > 0 {
		ev.Rules = m.passed
	}
	return verdict
}
