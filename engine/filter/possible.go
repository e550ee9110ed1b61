package filter

import (
	"cmp"
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

// Check returns an error in two cases. A filter, an alternative of "or" or the condition of a rule
// can never be true for these events. Or tree or tag can never be decided. Conditions of drop rules
// may be impossible. Check compares the terms about one field that "and" joins, and accepts all
// that this does not decide. f may be nil.
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
		if err := all.checkAlternatives(n); err != nil {
			return err
		}
		if err := all.check(n); err != nil {
			return err
		}
	}
	return nil
}

// CheckAny is like [Filter.Check], but accepts alternatives and rules that can never be true if
// others can.
func (f *Filter) CheckAny(r Reported) error {
	if f == nil {
		return nil
	}
	return r.scope().check(allOf(f.conditions))
}

// scope is a set of events: those of these kinds for which all facts are true.
type scope struct {
	reported engine.Events
	together []together
	some     []engine.Events // each event has a kind of each element
	words    []string        // the terms about kinds, for error messages
	facts    []fact
}

// together has the kinds that one event can have. Each such event has first.
type together struct{ first, all engine.Events }

// fact is a comparison that is true, or false, for each event of a scope that has the given kinds.
type fact struct {
	comparison
	is    bool
	why   string          // reason of a fact that no term states, else ""
	given []engine.Events // an event has one kind of each element
}

// comparison is a term about one value of an event.
type comparison interface {
	// about returns an equal value for all comparisons of one value.
	about() any
	// samples appends values to list. If any value satisfies all comparisons, one of the
	// samples of all comparisons does, too. There are none if samples cannot show it.
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
		s.addFact(boolOf(threadTerm{}), false, "the events of threads are not reported")
	}
	const nonzero = "ends with status 0 are not reported"
	if r.Nonzero {
		s.addFact(boolOf(failedTerm{}), true, nonzero, engine.EventExit)
		s.addFact(between("exit_code", 1, 255), true, nonzero)
	}
	const dumped = "a core dump ends the process by a signal"
	s.addFact(boolOf(failedTerm{}), true, dumped, engine.EventCoreDump, engine.EventExit)
	s.addFact(between("exit_signal", 1, 64), true, dumped, engine.EventCoreDump, engine.EventExit)
	s.addFact(boolOf(failedTerm{}), true, "exec_failed is a failure", fails)
	return s
}

// between returns a comparison of a number field with bounds.
func between(name string, least, most uint64) *numberTerm {
	return &numberTerm{numberField: fields[name].(*numberField), in: []interval{{least, most}}}
}

// checkAlternatives returns an error if an alternative is never true, whatever the other
// alternatives are.
func (s *scope) checkAlternatives(n node) error {
	all, _ := n.(allOf)
	any, _ := n.(oneOfs)
	for _, part := range slices.Concat(all, allOf(any)) {
		if err := s.checkAlternatives(part); err != nil {
			return err
		}
	}
	for _, alternative := range any {
		if err := s.check(alternative); err != nil {
			return err
		}
	}
	return nil
}

// check returns an error if n is true for no event of s.
func (s *scope) check(n node) error {
	within := &scope{s.reported, slices.Clone(s.together), slices.Clip(s.some), slices.Clip(s.words), slices.Clip(s.facts)}
	var choices [][]node
	if err := within.restrict(n, true, &choices); err != nil {
		return err
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

// restrict removes from s the events for which n is not true. If is is false, it removes the events
// for which n is not false. It appends the remaining alternatives to choices, and returns an error
// if no event is left.
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
		s.addFact(boolOf(n), is, "")
		if !is {
			s.addFact(between("exit_signal", 0, 0), true, "", ends)
			s.addFact(between("exit_code", 0, 0), true, "", ends)
			return nil
		}
		*choices = append(*choices, []node{kindTerm(fails), between("exit_signal", 1, 64), between("exit_code", 1, 255)})
		return s.restrictKinds("failed", ends|fails, true)
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

// restrictKinds does the same as restrict for a word that needs one of some kinds.
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
	if s.words = append(s.words, word); len(s.some) == 0 || slices.ContainsFunc(s.together, s.hasAll) {
		return nil
	}
	return fmt.Errorf("%s: no event has such kinds", strings.Join(s.words, " and "))
}

// hasAll reports whether an event with these kinds can have one kind of each element of s.some.
func (s *scope) hasAll(t together) bool {
	for _, kinds := range s.some {
		if !t.all.Has(kinds) {
			return false
		}
	}
	return t.all.Has(t.first)
}

// restrictValue does the same as restrict for a term about a value.
func (s *scope) restrictValue(n node, is bool) error {
	var of engine.Events
	switch t := n.(type) {
	case *numberTerm:
		of = t.of
		if !is && t.fields.Has(engine.FieldExeFile) {
			return nil // kernel threads have no list
		}
		if is && t.about() == fields["exit_code"] {
			s.addFact(between("exit_signal", 0, 0), true, "an end by a signal has no exit_code")
		}
	case *textTerm:
		of = t.of
	}
	if of != 0 {
		if !is {
			return nil // also true for events without the value
		}
		if err := s.restrictKinds(nameOf(n), of, true); err != nil {
			return err
		}
	}
	var known engine.Fields
	if f, ok := n.(field); ok {
		known = f.needs()
	} else if t, ok := n.(stateTerm); ok && t.cached && is {
		known = t.fields
	}
	if known != 0 {
		s.addFact(boolOf(stateTerm{known, false, "known " + strings.TrimPrefix(nameOf(n), "cached ")}), true, "")
	}
	if c, ok := n.(comparison); ok {
		s.addFact(c, is, "")
	}
	if b := boolOf(n); b != nil {
		s.addFact(b, is, "")
	}
	return nil
}

func (s *scope) addFact(c comparison, is bool, why string, given ...engine.Events) {
	s.facts = append(s.facts, fact{c, is, why, given})
}

// applies reports whether each event of s has the given kinds.
func (s *scope) applies(f fact) bool {
	for _, kinds := range f.given {
		for _, t := range s.together {
			certain := kinds.Has(t.first) || slices.ContainsFunc(s.some, func(some engine.Events) bool { return some&t.all&^kinds == 0 })
			if s.hasAll(t) && !certain {
				return false
			}
		}
	}
	return true
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
	name := nameOf(facts[0].comparison)
	var reasons []string
	for _, f := range facts {
		if f.why != "" && !slices.Contains(reasons, f.why) {
			reasons = append(reasons, f.why)
			if b, ok := f.comparison.(*boolTerm); ok && f.is {
				name = "not " + b.word
			}
		}
	}
	switch len(reasons) {
	case 0:
		return fmt.Errorf("the terms about %s are never true together", name)
	case 1:
		return fmt.Errorf("%s is never true: %s", name, reasons[0])
	}
	return fmt.Errorf("the terms are never true together: %s", strings.Join(reasons, ", and "))
}

// nameOf returns the word at the beginning of a term.
func nameOf(n any) string {
	switch t := n.(type) {
	case *boolTerm:
		return t.word
	case threadTerm:
		return "thread"
	case failedTerm:
		return "failed"
	case stateTerm:
		return t.word
	case *markTerm:
		if len(t.tags) > 0 {
			return "tag"
		}
		return "tree"
	case *listTerm:
		if t.prefix == "" {
			return "args"
		}
		return environment + strings.TrimSuffix(t.prefix, "=")
	case comparison:
		for name, f := range fields {
			if f == t.about() {
				return name
			}
		}
	}
	return ""
}

// boolTerm is a term with two possible values. Terms with the same key are equal, except for none.
type boolTerm struct {
	key, word string
	none      bool
}

// boolOf returns a term as a boolTerm whose key is what the term compares. It returns nil for other
// terms.
func boolOf(n node) *boolTerm {
	b := &boolTerm{word: nameOf(n)}
	switch t := n.(type) {
	case threadTerm, failedTerm:
	case stateTerm:
		b.key = fmt.Sprint(t.fields, t.cached)
	case *markTerm:
		b.key, b.none = fmt.Sprint(t.pids, t.tags), t.none
	case *listTerm:
		b.key, b.none = fmt.Sprint(t.texts, t.globs), t.none
	case *textTerm:
		b.key, b.none = fmt.Sprint(t.texts, t.globs), t.none
	default:
		return nil
	}
	return b
}

func (b *boolTerm) about() any { return boolTerm{b.key, b.word, false} }
func (b *boolTerm) samples(list []sample, _ bool) []sample {
	return append(list, sample{}, sample{number: 1})
}
func (b *boolTerm) holds(s sample) bool { return (s.number != 0) != b.none }

func (n *numberTerm) about() any { return n.numberField }
func (n *numberTerm) samples(list []sample, _ bool) []sample {
	most := cmp.Or(n.most, math.MaxUint64)
	list = append(list, sample{number: n.least}, sample{number: most})
	for _, in := range n.in {
		for _, v := range []uint64{in.from - 1, in.from, in.to, in.to + 1} {
			if n.least <= v && v <= most {
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
