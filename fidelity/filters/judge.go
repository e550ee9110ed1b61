package filters

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/engine/filter"
	"github.com/quark-linux/quark/engine/glob"
	"github.com/quark-linux/quark/engine/trace"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/fidelity/score"
	"github.com/quark-linux/quark/fidelity/truth"
	"github.com/quark-linux/quark/fidelity/witness"
)

// Recording is what a queue recorded while scenarios ran.
type Recording struct {
	Trace  []byte
	Opened uint64 // when the queue was opened, CLOCK_MONOTONIC ns
	// Live is what the queue delivered, with MinAgg and the filter Where, which is about EXEC
	// and EXIT.
	Live  []score.Seen
	Where string
}

// Verdict is what is said of a recording.
type Verdict struct {
	Findings []string
	// Tried are the fields of which some events have a value that others do not have.
	Tried []string
	// Scores are those of the replays without a filter, one for each outcome.
	Scores []*score.Score
}

func (v *Verdict) find(format string, args ...any) {
	v.Findings = append(v.Findings, fmt.Sprintf(format, args...))
}

// replay is one replay of a recording.
type replay struct {
	*engine.Engine
	seen   []score.Seen
	source *trace.Reader
	stats  engine.Stats
}

// play replays a recording, with a filter unless that is nil, and with MinAgg unless whole is set.
// It has no quark.Queue, which would wait for each reading by system calls.
func (r *Recording) play(where *filter.Filter, whole bool) (p *replay, err error) {
	p = new(replay)
	if p.source, err = trace.NewReader(bytes.NewReader(r.Trace)); err != nil {
		return nil, err
	}
	clock := p.source.Clock()
	opts := engine.Options{HoldTime: hold, CacheGraceTime: time.Hour}
	if where != nil {
		m, err := where.Matcher(&clock)
		if err != nil {
			return nil, err
		}
		opts.Judge = m.Judge
	}
	opts.MinAgg = !whole
	if p.Engine, err = engine.New(p.source, clock, opts); err != nil {
		return nil, err
	}
	err = p.source.Scan(func(r *engine.RawEvent) error {
		p.Learn(r)
		return nil
	})
	for err == nil && !p.Drained() {
		ev, failed := p.Get()
		switch {
		case failed == nil:
			p.seen = append(p.seen, score.SeenOf(ev, ev.Time))
		case errors.Is(failed, engine.ErrNothing):
			p.source.Arm(true) // the clock goes on
		default:
			err = failed
		}
	}
	if err == nil {
		p.stats, err = p.Stats()
	}
	return p, errors.Join(err, p.source.Close())
}

// witness returns what was delivered, for scoring.
func (p *replay) witness(opened uint64) *score.Witness {
	return &score.Witness{
		Backend: p.source.Name(), Table: p.source.Capabilities(), Hold: uint64(hold), Opened: opened, BootOffset: p.Clock().BootOffset,
		AfterEnd: score.AfterEnd(p.source.Name()), Clock: score.Clock(p.source.Name()), Single: p.seen,
	}
}

// hold is the HoldTime of replays.
const hold = 50 * time.Millisecond

// verdict is what a filter has to say of an event.
type verdict uint8

const (
	drop verdict = iota
	pass
	unsure
	either
)

// try is a filter, and what it has to say.
type try struct {
	source string
	rules  bool
	says   func(s *score.Seen) verdict
}

// compile compiles the filter.
func (t *try) compile() (*filter.Filter, error) {
	if t.rules {
		return filter.ParseRules(t.source)
	}
	return filter.Parse(t.source)
}

// Judge judges filters by a recording of the lives of some scenarios.
func Judge(r *Recording, outcomes []*scenario.Outcome) (*Verdict, error) {
	v := new(Verdict)
	var lives []*truth.Life
	for _, o := range outcomes {
		lives = append(lives, o.Lives...)
	}
	for _, whole := range []bool{false, true} {
		base, err := r.play(nil, whole)
		if err != nil {
			return nil, err
		}
		if err := v.judge(r, base, outcomes, lives, whole); err != nil {
			return nil, err
		}
	}
	slices.Sort(v.Tried)
	v.Tried = slices.Compact(v.Tried)
	return v, nil
}

func (v *Verdict) judge(r *Recording, base *replay, outcomes []*scenario.Outcome, lives []*truth.Life, whole bool) error {
	if !whole {
		for _, o := range outcomes {
			v.Scores = append(v.Scores, score.Among(base.witness(r.Opened), o.Lives, o.All))
		}
		v.live(r, base, lives)
	}
	var own []*score.Seen // of lives
	for i := range base.seen {
		if s := &base.seen[i]; lifeOf(lives, s) != nil {
			own = append(own, s)
		}
	}
	clock := base.Clock()
	var tries []try
	for _, f := range fields(&clock.Host, clock.BootOffset) {
		some := f.tries(own, whole)
		if len(some) > 0 {
			v.Tried = append(v.Tried, f.name)
		}
		tries = append(tries, some...)
	}
	for _, t := range append(tries, others(base.seen, lives, whole)...) {
		if err := v.try(r, base, &t, whole); err != nil {
			return err
		}
	}
	return v.nothing(r, base, lives, whole)
}

// lifeOf returns the life that an event is of, nil if it is of none.
func lifeOf(lives []*truth.Life, s *score.Seen) *truth.Life {
	for _, l := range lives {
		if l.PID == int(s.Process.PID) && l.Born() <= s.Time && s.Time <= l.Ended()+uint64(2*time.Second) {
			return l
		}
	}
	return nil
}

// live compares what was delivered live, of lives, with a replay with the same filter.
func (v *Verdict) live(r *Recording, base *replay, lives []*truth.Life) {
	f, err := filter.Parse(r.Where)
	if err != nil {
		v.find("%s: %v", r.Where, err)
		return
	}
	again, err := r.play(f, false)
	if err != nil {
		v.find("%s: %v", r.Where, err)
		return
	}
	of := func(all []score.Seen) (own []string) {
		for i := range all {
			if s := &all[i]; lifeOf(lives, s) != nil {
				// Which changes of names and ids join is not the same in a replay.
				own = append(own, fmt.Sprintf("%s of %d at %d", s.Events&(engine.EventExec|engine.EventExit), s.Process.PID, s.Time))
			}
		}
		return own
	}
	live, replayed := of(r.Live), of(again.seen)
	if !slices.Equal(live, replayed) || len(live) == 0 || len(live) == len(of(base.seen)) {
		v.find("%s: live %d events are delivered, in a replay %d, without a filter %d; the first: %s", r.Where, len(live), len(replayed),
			len(of(base.seen)), different(live, replayed))
	}
}

// different returns the first members that are not the same.
func different(a, b []string) string {
	for i := range max(len(a), len(b)) {
		x, y := "", ""
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x != y {
			return fmt.Sprintf("%q, %q", x, y)
		}
	}
	return ""
}

// try replays with a filter, and compares what it lets pass with what it has to.
func (v *Verdict) try(r *Recording, base *replay, t *try, whole bool) error {
	f, err := t.compile()
	if err != nil {
		return fmt.Errorf("%s: %w", t.source, err)
	}
	p, err := r.play(f, whole)
	if err != nil {
		return fmt.Errorf("%s: %w", t.source, err)
	}
	next, doubts, exact := 0, 0, true
	for i := range base.seen {
		s := &base.seen[i]
		says := pass
		if !s.Events.Has(engine.EventGap) {
			says = t.says(s)
		}
		delivered := next < len(p.seen) && same(&p.seen[next], s)
		if delivered {
			next++
		}
		switch {
		case says == either:
			exact = false
		case says == unsure:
			doubts++
		}
		if says != either && delivered != (says != drop) {
			v.find("%s: %s of %d at %d is delivered: %v, joined: %v", t.source, s.Events, s.Process.PID, s.Time, delivered, whole)
			return nil
		}
	}
	if next != len(p.seen) || int(p.stats.Filtered) != len(base.seen)-len(p.seen) || exact && int(p.stats.Unsure) != doubts {
		v.find("%s: %d of %d events are delivered, %d of them are not among those; %d are counted as filtered and %d as unsure, and %d are unsure",
			t.source, len(p.seen), len(base.seen), len(p.seen)-next, p.stats.Filtered, p.stats.Unsure, doubts)
	}
	return nil
}

// same reports whether two replays delivered the same event.
func same(a, b *score.Seen) bool {
	return a.Time == b.Time && a.Process.PID == b.Process.PID && a.TID == b.TID && a.Thread == b.Thread && a.Events == b.Events
}

// nothing replays with a filter that lets nothing pass, and compares the process tables.
func (v *Verdict) nothing(r *Recording, base *replay, lives []*truth.Life, whole bool) error {
	nothing := try{source: "drop on any\n", rules: true}
	f, err := nothing.compile()
	if err != nil {
		return err
	}
	p, err := r.play(f, whole)
	if err != nil {
		return err
	}
	checked, gaps := make(map[engine.Identity]bool), 0
	for i := range base.seen {
		s := &base.seen[i]
		if s.Events.Has(engine.EventGap) {
			gaps++
		}
		id, ok := s.Process.Identity()
		if !ok || checked[id] || lifeOf(lives, s) == nil {
			continue
		}
		checked[id] = true
		if what := witness.Differs(p.LookupIdentity(id), base.LookupIdentity(id), inTable); what != "" {
			v.find("%s: in the table %s", nothing.source, what)
		}
	}
	if len(checked) == 0 && base.source.Capabilities().Fields[engine.FieldStart].Origin != engine.OriginNone {
		v.find("%s: no process could be looked up", nothing.source)
	}
	if filtered := len(base.seen) - gaps; len(p.seen) != gaps || int(p.stats.Filtered) != filtered {
		v.find("%s: %d events are delivered and %d counted as filtered, not %d and %d", nothing.source, len(p.seen), p.stats.Filtered, gaps, filtered)
	}
	return nil
}

// inTable are the fields that a process keeps.
const inTable = engine.AllFields&^engine.FieldsUsage | 1<<engine.FieldEntry | 1<<engine.FieldPrivileges

// tries returns filters about a field that some events of lives pass and others do not.
func (f *field) tries(own []*score.Seen, whole bool) (all []try) {
	var values []string
	without := false // an event shows that it has none
	for _, s := range own {
		v := f.of(s)
		if v.unknown || v.inexact {
			continue
		}
		without = without || v.none || len(v.values) == 0
		if !v.none {
			values = append(values, v.values...)
		}
	}
	slices.SortFunc(values, f.order)
	// A word of an expression has a limit.
	values = slices.DeleteFunc(slices.Compact(values), func(v string) bool { return len(v) > 1000 })
	if len(values) == 0 || len(values) == 1 && !without {
		return nil
	}
	least, most := values[0], values[len(values)-1]
	add := func(op, value string, holds func(string) bool) {
		none := op[0] == '!'
		all = append(all, try{source: f.name + " " + op + " " + value, says: func(s *score.Seen) verdict {
			switch v := f.of(s); {
			case v.none:
				return drop
			case v.unknown:
				return unsure
			case v.inexact:
				return either
			case slices.ContainsFunc(v.values, holds) != none:
				return pass
			}
			return drop
		}})
	}
	equals := func(v string) func(string) bool { return func(s string) bool { return s == v } }
	switch {
	case !whole:
		add("==", f.literal(most), equals(most))
	case f.compare == number:
		add(">", least+f.unit, func(s string) bool { return f.order(s, least) > 0 })
	case f.compare == text || f.compare == path:
		begin := most[:(len(most)+1)/2]
		add("!~", quote(glob.Quote(begin)+"**"), func(s string) bool { return strings.HasPrefix(s, begin) })
	default:
		add("!=", f.literal(least), equals(least))
	}
	return all
}

// order orders the values of a field.
func (f *field) order(a, b string) int {
	if f.compare != number {
		return strings.Compare(a, b)
	}
	x, _ := strconv.ParseUint(a, 10, 64)
	y, _ := strconv.ParseUint(b, 10, 64)
	return cmp.Compare(x, y)
}

// literal writes a value in an expression.
func (f *field) literal(v string) string {
	if f.compare == text || f.compare == path {
		return quote(v)
	}
	return v + f.unit
}

func quote(s string) string {
	b := []byte{'"'}
	for _, c := range []byte(s) {
		b = fmt.Appendf(b, `\x%02x`, c)
	}
	return string(append(b, '"'))
}

// others returns filters about kinds of events, about what is known, and about descent.
func others(seen []score.Seen, lives []*truth.Life, whole bool) (all []try) {
	if whole {
		for k := range engine.Kind(engine.NumKinds) {
			if k == engine.KindGap {
				continue
			}
			all = append(all, try{source: strings.ToLower(k.String()), says: func(s *score.Seen) verdict { return verdictOf(s.Events.Has(k.Events())) }})
		}
		all = append(all, try{source: "known exe and not carried exe", says: func(s *score.Seen) verdict {
			return verdictOf((s.Process.Known &^ s.Process.Carried).Has(engine.FieldFilename) || s.Process.IsKernelThread())
		}}, try{source: "failed", says: func(s *score.Seen) verdict {
			switch {
			case !isEnd(s):
				return drop
			case !s.Process.Known.Has(engine.FieldExit):
				return unsure
			}
			return verdictOf(s.Process.Task.Exit.WaitStatus != 0)
		}})
	}
	// The process with the most children, but for the first one, of which all are.
	children := make(map[*truth.Life]int)
	var root *truth.Life
	for _, l := range lives {
		if c := l.Creator; c != nil && c.Creator != nil {
			if children[c]++; root == nil || children[c] > children[root] {
				root = c
			}
		}
	}
	if root == nil {
		return all
	}
	born := make(map[*truth.Life]bool) // whose children they are was told with their births
	for i := range seen {
		if s := &seen[i]; s.Events.Has(engine.EventFork) && (s.Process.Known &^ s.Process.Carried).Has(engine.FieldPPID) {
			born[lifeOf(lives, s)] = true
		}
	}
	inTree := func(s *score.Seen) verdict {
		l := lifeOf(lives, s)
		if l == nil {
			return either
		}
		for ; l != nil; l = l.Creator {
			if l == root {
				return pass
			}
			if !born[l] {
				return either
			}
		}
		return drop
	}
	return append(all, try{source: fmt.Sprintf("tree == %d", root.PID), says: inTree},
		try{source: fmt.Sprintf("poison 7 on process.pid %d\ndrop if poison != 7\n", root.PID), rules: true, says: inTree})
}

func verdictOf(b bool) verdict {
	if b {
		return pass
	}
	return drop
}
