package filter

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/quark-linux/quark/engine"
)

// Reported describes the events that a queue delivers.
type Reported struct {
	Kinds   engine.Events
	Threads bool           // events of single threads are included
	Nonzero bool           // exits with wait status 0 are left out
	MinAgg  bool           // as [engine.Options.MinAgg]
	Matrix  *engine.Matrix // as [engine.Options.Matrix]
}

// Check returns an error if a filter, an alternative of "or", or the condition of a rule can never
// be true for these events. It also returns an error if tree or tag can never be decided.
// Conditions of drop rules may be impossible. Check compares the terms about one value that "and"
// joins, and accepts all that this does not decide. f may be nil.
func (f *Filter) Check(r Reported) error {
	if f == nil {
		return nil
	}
	if !r.Kinds.Has(engine.EventFork) {
		switch {
		case len(f.trees) > 0:
			return errors.New("tree is never decided: FORK is not reported")
		case len(f.tagTerms) > 0:
			return errors.New("tag is never decided: FORK is not reported")
		}
	}
	expressions := []node{allOf(f.conditions)}
	for _, rules := range f.rules {
		for _, rule := range rules {
			if rule.action != actionDrop {
				expressions = append(expressions, rule.condition)
			}
		}
	}
	all := r.scope()
	for _, n := range expressions {
		for _, n := range append(alternatives(n), n) {
			if err := all.check(n); err != nil {
				return err
			}
		}
	}
	return nil
}

// CheckAny is like [Filter.Check], but accepts impossible alternatives and rules if another
// alternative is possible.
func (f *Filter) CheckAny(r Reported) error {
	if f == nil {
		return nil
	}
	return r.scope().check(allOf(f.conditions))
}

// scope is a set of events. Each event has one of these sets of kinds, and all facts hold for it.
type scope struct {
	reported engine.Events
	together []together
	some     []engine.Events // each event has a kind of each element
	words    []string        // the terms about kinds, for error messages
	facts    []fact
}

// together holds the kinds that one event can have. Each such event has the kind first.
type together struct{ first, all engine.Events }

// fact is a comparison that is true, or false, for each event that has one of the given kinds.
type fact struct {
	comparison
	is    bool
	why   string        // reason of a fact that no term states, else ""
	given engine.Events // 0 for all
}

// comparison is a term about one value of an event.
type comparison interface {
	// about returns the key of the compared value. Comparisons of one value have equal keys.
	about() any
	// samples appends values to list. If any value satisfies all comparisons, then one of their
	// samples does. Comparisons without samples count as possible.
	samples(list []sample, is bool) []sample
	holds(s sample) bool
}

type sample struct {
	number uint64
	text   string
}

func (r *Reported) scope() *scope {
	matrix := r.Matrix
	switch {
	case r.MinAgg:
		matrix = engine.MinimalMatrix()
	case matrix == nil:
		matrix = engine.DefaultMatrix()
	}
	s := &scope{reported: r.Kinds}
	for k := range engine.Kind(engine.NumKinds) {
		t := together{k.Events(), k.Events()}
		for next, rule := range matrix[k] {
			if rule != engine.JoinNever {
				t.all |= engine.Kind(next).Events() & r.Kinds
			}
		}
		if r.Kinds.Has(t.first) {
			s.together = append(s.together, t)
		}
	}
	if r.Kinds.Has(engine.EventExit) {
		s.reported |= engine.EventGone
		s.together = append(s.together, together{engine.EventGone, engine.EventGone})
	}
	if !r.Threads {
		s.addFact(boolTerm{key: "thread"}, false, "the events of threads are not reported", 0)
	}
	end := kindTerm(ends)
	s.addFact(endTerm{end}, true, "", ends)
	if r.Nonzero {
		s.addFact(endTerm{oneOfs{not{end}, failedTerm{}}}, true, "ends with status 0 are not reported", 0)
	}
	killed := &numberTerm{exitSignal, []interval{{1, maxSignal}}, false, ""}
	s.addFact(endTerm{oneOfs{not{end}, killed}}, true, "a core dump ends the process by a signal", engine.EventCoreDump)
	return s
}

// alternatives returns the parts of n that "or" joins.
func alternatives(n node) (list []node) {
	all, _ := n.(allOf)
	any, _ := n.(oneOfs)
	for _, part := range slices.Concat(all, allOf(any)) {
		list = append(list, alternatives(part)...)
	}
	return append(list, any...)
}

// check returns an error if n is true for no event of s.
func (s *scope) check(n node) error {
	within := &scope{s.reported, slices.Clone(s.together), slices.Clip(s.some), slices.Clip(s.words), slices.Clip(s.facts)}
	var choices [][]node
	if err := within.restrict(n, true, &choices); err != nil {
		return err
	}
	if len(within.some) > 0 && !slices.ContainsFunc(within.together, within.hasAll) {
		return fmt.Errorf("%s: no event has such kinds", strings.Join(within.words, " and "))
	}
	if err := within.contradiction(); err != nil {
		return err
	}
	for _, alternatives := range choices {
		var err error
		for _, one := range alternatives {
			if err = within.check(one); err == nil {
				break
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// restrict removes the events from s for which n is not true, or, with is false, not false. It
// appends the remaining alternatives to choices, and returns an error if no event is left.
func (s *scope) restrict(n node, is bool, choices *[][]node) error {
	parts, all := n.(allOf)
	switch n := n.(type) {
	case not:
		return s.restrict(n.node, !is, choices)
	case allOf:
	case oneOfs:
		parts = allOf(n)
	case kindTerm:
		return s.restrictKinds(strings.ToLower(engine.Events(n).String()), engine.Events(n), is)
	case failedTerm:
		if is {
			*choices = append(*choices, []node{kindTerm(fails), endTerm{n}})
			return s.restrictKinds("failed", ends|fails, true)
		}
		s.addFact(endTerm{n}, false, "", 0)
		return s.restrictKinds("failed", fails, false)
	case threadTerm:
		if is {
			s.words = append(s.words, "thread")
			for i, t := range s.together {
				s.together[i].all &= t.first & threadKinds
			}
		}
		return s.restrictValue(n, is)
	case anyTerm:
		return nil
	default:
		return s.restrictValue(n, is)
	}
	if is == all {
		for _, part := range parts {
			if err := s.restrict(part, is, choices); err != nil {
				return err
			}
		}
		return nil
	}
	if !is {
		parts = slices.Clone(parts)
		for i := range parts {
			parts[i] = not{parts[i]}
		}
	}
	*choices = append(*choices, parts)
	return nil
}

// restrictKinds is like restrict, for a word that needs one of some kinds.
func (s *scope) restrictKinds(word string, kinds engine.Events, is bool) error {
	if is {
		s.some = append(s.some, kinds)
		if !s.reported.Has(kinds) {
			kind, _, _ := strings.Cut(kinds.String(), "+")
			return fmt.Errorf("%s is never true: %s is not reported", word, kind)
		}
	} else {
		word = "not " + word
		for i := range s.together {
			s.together[i].all &^= kinds
		}
	}
	s.words = append(s.words, word)
	return nil
}

// hasAll reports whether an event with these kinds can have one kind of each element of s.some.
func (s *scope) hasAll(t together) bool {
	return t.all.Has(t.first) && !slices.ContainsFunc(s.some, func(some engine.Events) bool { return !t.all.Has(some) })
}

// restrictValue is like restrict, for a term about a value.
func (s *scope) restrictValue(n node, is bool) error {
	var known engine.Fields
	var of engine.Events
	if f, ok := n.(field); ok {
		known, of = f.needs()
	} else if t, ok := n.(stateTerm); ok && t.cached && is {
		known = t.fields
	}
	if t, ok := n.(*numberTerm); ok && !is && t.fields.Has(engine.FieldExeFile) {
		return nil // also true for kernel threads, which have no such file
	}
	if of != 0 && is {
		if err := s.restrictKinds(nameOf(n), of, true); err != nil {
			return err
		}
	}
	if known != 0 && (of == 0 || is) {
		s.addFact(boolTerm{stateTerm{"", known, false}.key(), word("known " + strings.TrimPrefix(nameOf(n), "cached "))}, true, "", 0)
	}
	if t, ok := n.(*numberTerm); ok && (t.numberField == exitCode || t.numberField == exitSignal) {
		s.addFact(endTerm{t}, is, "", 0)
	} else if c, ok := n.(comparison); ok {
		s.addFact(c, is, "", of)
	}
	if key, none := boolOf(n); key != "" {
		s.addFact(boolTerm{key, word(nameOf(n))}, is != none, "", of)
	}
	return nil
}

func (s *scope) addFact(c comparison, is bool, why string, given engine.Events) {
	s.facts = append(s.facts, fact{c, is, why, given})
}

// applies reports whether f is about each event of s.
func (s *scope) applies(f fact) bool {
	return f.given == 0 || !slices.ContainsFunc(s.together, func(t together) bool {
		others := func(some engine.Events) bool { return some&t.all&^f.given == 0 }
		return s.hasAll(t) && !f.given.Has(t.first) && !slices.ContainsFunc(s.some, others)
	})
}

// contradiction returns an error if the facts about one value contradict each other.
func (s *scope) contradiction() error {
	about := make(map[any][]fact)
	for _, f := range s.facts {
		if s.applies(f) {
			about[f.about()] = append(about[f.about()], f)
		}
	}
	for _, f := range s.facts { // in this order, for the same error each time
		if same := about[f.about()]; !possible(same) {
			return impossible(same)
		}
	}
	return nil
}

// possible reports whether a value can satisfy all facts.
func possible(facts []fact) bool {
	var samples []sample
	for _, f := range facts {
		samples = f.samples(samples, f.is)
	}
	return len(samples) == 0 || slices.ContainsFunc(samples, func(x sample) bool {
		return !slices.ContainsFunc(facts, func(f fact) bool { return f.holds(x) != f.is })
	})
}

// impossible returns the error for facts about one value.
func impossible(facts []fact) error {
	var names, reasons []string
	word := "not "
	for _, f := range facts {
		if f.why != "" {
			addNew(&reasons, f.why)
		} else if name := nameOf(f.comparison); name != "" {
			addNew(&names, name)
			if f.is {
				word = ""
			}
		}
	}
	name := strings.Join(names, " and ")
	if len(reasons) == 0 {
		return fmt.Errorf("the terms about %s are never true together", name)
	}
	return fmt.Errorf("%s%s is never true: %s", word, name, strings.Join(reasons, ", and "))
}

// nameOf returns the word at the beginning of a term, "" for other expressions.
func nameOf(n any) string {
	if t, ok := n.(interface{ name() string }); ok {
		return t.name()
	}
	return ""
}

// boolTerm stands for a term whose value is either true or false. Terms with the same key have the
// same value.
type boolTerm struct {
	key string // what the term compares, in any notation
	word
}

// boolOf returns the key of a term, and whether the term is true if terms with this key are false.
// The key of a term that compares numbers is "".
func boolOf(n node) (key string, none bool) {
	switch t := n.(type) {
	case threadTerm:
		return "thread", false
	case stateTerm:
		return t.key(), false
	case *markTerm:
		return fmt.Sprint(t.pids, t.tags), t.none
	case *listTerm:
		return fmt.Sprint(t.word, t.texts, t.globs), t.none
	case *textTerm:
		return fmt.Sprint(t.word, t.texts, t.globs), t.none
	}
	return "", false
}

func (s stateTerm) key() string { return fmt.Sprint(s.cached, s.fields) }

func (b boolTerm) about() any { return b.key }
func (b boolTerm) samples(list []sample, _ bool) []sample {
	return append(list, sample{}, sample{number: 1})
}
func (b boolTerm) holds(s sample) bool { return s.number != 0 }

// endTerm is a term about the end of a process. exit_code, exit_signal and failed depend on one
// wait status, so the samples are wait statuses, and noEnd for events without an end.
type endTerm struct{ node }

const noEnd = math.MaxUint64

func (t endTerm) name() string { return nameOf(t.node) }
func (t endTerm) about() any   { return "end" }
func (t endTerm) samples(list []sample, is bool) []sample {
	list = append(list, sample{number: noEnd}, sample{number: 0}, sample{number: 255 << 8}, sample{number: maxSignal})
	if n, ok := t.node.(*numberTerm); ok {
		for _, x := range n.samples(nil, is) {
			if n.numberField == exitCode {
				x.number <<= 8
			}
			list = append(list, x)
		}
	}
	return list
}
func (t endTerm) holds(s sample) bool {
	ev := engine.Event{Process: new(engine.Process)}
	if s.number != noEnd {
		ev.Events = engine.EventExit
		ev.Process.Known = engine.FieldExit.Set()
		ev.Process.Task.Exit.WaitStatus = int32(s.number)
	}
	return t.eval(nil, &ev) == yes
}

func (n *numberTerm) about() any { return n.numberField }
func (n *numberTerm) samples(list []sample, _ bool) []sample {
	list = append(list, sample{number: n.least}, sample{number: n.most})
	for _, in := range n.in {
		for _, v := range []uint64{in.from - 1, in.from, in.to, in.to + 1} {
			if n.least <= v && v <= n.most {
				list = append(list, sample{number: v})
			}
		}
	}
	return list
}
func (n *numberTerm) holds(s sample) bool {
	return slices.ContainsFunc(n.in, func(in interval) bool { return in.has(s.number) }) != n.none
}

func (t *textTerm) about() any { return t.textField }
func (t *textTerm) samples(list []sample, is bool) []sample {
	texts := t.among
	if is != t.none && len(t.globs) == 0 {
		texts = t.texts
	}
	for _, text := range texts {
		list = append(list, sample{text: text})
	}
	return list
}
func (t *textTerm) holds(s sample) bool { return t.patterns.has(s.text) != t.none }

func (t *setTerm) about() any { return t.setField }
func (t *setTerm) samples(list []sample, _ bool) []sample {
	for bits := range uint64(1) << len(t.names) {
		list = append(list, sample{number: bits})
	}
	return list
}
func (t *setTerm) holds(s sample) bool {
	return (uint(s.number)&t.bits != 0 || t.empty && s.number == 0) != t.none
}
