package filter

import (
	"cmp"
	"errors"
	"fmt"
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

// Check returns an error if a filter, an alternative of "or", or the condition of a rule is false
// for all these events, whatever the values of their fields. It also returns an error if tree or
// tag can never be decided. Conditions of drop rules may always be false. f may be nil.
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
	c := f.checker(r)
	for _, n := range expressions {
		for _, n := range append(alternatives(n), n) {
			if err := c.check(n); err != nil {
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
	return f.checker(r).check(allOf(f.conditions))
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

// checker evaluates expressions for samples of the reported events: one for each set of kinds that
// an event can have, and one for each wait status. All other fields are unknown, so an expression
// is false for a sample only if no values of these fields can make it true.
type checker struct {
	Reported
	matcher Matcher
	samples []engine.Event // without wait status
}

func (f *Filter) checker(r Reported) *checker {
	c := &checker{Reported: r, matcher: Matcher{Filter: f, clock: new(engine.Clock), anyFields: true}}
	if r.Kinds.Has(engine.EventExit) {
		c.Kinds |= engine.EventGone
		c.add(engine.EventGone, false)
	}
	matrix := cmp.Or(r.Matrix, engine.DefaultMatrix())
	if r.MinAgg {
		matrix = engine.MinimalMatrix()
	}
	for k := range engine.Kind(engine.NumKinds) {
		first, joining := k.Events()&r.Kinds, engine.Events(0)
		if first == 0 {
			continue
		}
		if r.Threads && threadKinds.Has(first) {
			c.add(first, true)
		}
		for next, rule := range matrix[k] {
			if rule != engine.JoinNever {
				joining |= engine.Kind(next).Events() & r.Kinds &^ first
			}
		}
		c.add(first, false)
		for some := joining; some != 0; some = (some - 1) & joining { // each subset
			c.add(first|some, false)
		}
	}
	return c
}

func (c *checker) add(kinds engine.Events, thread bool) {
	c.samples = append(c.samples, engine.Event{Process: new(engine.Process), Events: kinds, Thread: thread})
}

// check returns an error if n is false for all samples.
func (c *checker) check(n node) error {
	if c.possible(n) {
		return nil
	}
	var words []string
	for _, term := range terms(n, true, nil) {
		word, needs := describe(term)
		switch {
		case c.possible(term):
		case needs != 0 && !c.Kinds.Has(needs):
			kind, _, _ := strings.Cut(needs.String(), "+")
			return fmt.Errorf("%s is never true: %s is not reported", word, kind)
		case term == node(threadTerm{}):
			return errors.New("thread is never true: the events of threads are not reported")
		case c.possibleWithStatus0(term):
			return fmt.Errorf("%s is never true: ends with status 0 are not reported", word)
		}
		addNew(&words, word)
	}
	return fmt.Errorf("%s is never true for one event", strings.Join(words, " and "))
}

// possible reports whether n is true or undecided for a sample.
func (c *checker) possible(n node) bool {
	for i := range c.samples {
		if ev := &c.samples[i]; n.eval(&c.matcher, ev) != no && (!ev.Events.Has(ends) || c.possibleEnd(n, ev)) {
			return true
		}
	}
	return false
}

// possibleWithStatus0 is like possible, if ends with status 0 are reported too.
func (c checker) possibleWithStatus0(n node) bool {
	c.Nonzero = false
	return c.possible(n)
}

// possibleEnd is like possible, for one sample with each wait status.
func (c *checker) possibleEnd(n node, ev *engine.Event) bool {
	p := *ev.Process
	p.Known |= engine.FieldExit.Set()
	end := *ev
	end.Process = &p
	for status := range int32(256 + maxSignal) {
		killed := status >= 256
		if status == 0 && c.Nonzero || !killed && ev.Events.Has(engine.EventCoreDump) {
			continue
		}
		if p.Task.Exit.WaitStatus = status << 8; killed {
			p.Task.Exit.WaitStatus = status - 255
		}
		if n.eval(&c.matcher, &end) != no {
			return true
		}
	}
	return false
}

// terms appends the terms of n, with "not" before those that must be false.
func terms(n node, is bool, list []node) []node {
	switch n := n.(type) {
	case not:
		return terms(n.node, !is, list)
	case allOf:
		for _, part := range n {
			list = terms(part, is, list)
		}
		return list
	case oneOfs:
		return terms(allOf(n), is, list)
	}
	if !is {
		n = not{n}
	}
	return append(list, n)
}

// describe returns the words of a term, and the kinds of events of which one must be reported, 0 if
// any will do.
func describe(term node) (words string, needs engine.Events) {
	switch t := term.(type) {
	case not:
		words, _ = describe(t.node)
		return "not " + words, 0
	case kindTerm:
		return strings.ToLower(engine.Events(t).String()), engine.Events(t)
	case failedTerm:
		return "failed", ends | fails
	case field:
		_, needs = t.needs()
	}
	if t, ok := term.(interface{ name() string }); ok {
		words = t.name()
	}
	return words, needs
}
