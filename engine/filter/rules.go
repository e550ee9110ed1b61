package filter

import (
	"math"
	"strings"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/engine/glob"
)

// rule is a line of a file of rules.
type rule struct {
	drop      bool // else the event passes
	condition node
}

// decide applies rules to an event.
func (m *Matcher) decide(rules []rule, ev *engine.Event) engine.Verdict {
	mayPass, mayDrop, decided := false, false, false
	for i := range rules {
		r := &rules[i]
		t := r.condition.eval(m, ev)
		if t == no {
			continue
		}
		mayPass, mayDrop = mayPass || !r.drop, mayDrop || r.drop
		if decided = t == yes; decided {
			break
		}
	}
	switch mayPass = mayPass || !decided; {
	case mayPass && mayDrop:
		return engine.VerdictUnsure
	case mayDrop:
		return engine.VerdictDrop
	}
	return engine.VerdictPass
}

// ParseRules compiles a file of rules. The error is an *[Error].
func ParseRules(source string) (f *Filter, err error) {
	defer catch(&err)
	p := newParser(source)
	p.rules = true
	var rules []rule
	for {
		for !p.blank() {
			if p.pos == len(p.src) {
				p.filter.rules = [][]rule{rules}
				return p.filter, nil
			}
			p.pos++ // the end of a line
		}
		rules = append(rules, p.rule())
	}
}

// rule parses a rule up to the end of its line.
func (p *parser) rule() (r rule) {
	switch t := p.word(); {
	case t.is("pass"):
	case t.is("drop"):
		r.drop = true
	default:
		p.fail(t.at, "%s is no action: a rule begins with pass or drop", &t)
	}
	switch t := p.word(); {
	case t.is("if"):
		p.advance()
		p.unheeded = r.drop
		r.condition = p.whole()
	case !t.is("on"):
		p.fail(t.at, "on or if is expected, not %s", &t)
	default:
		r.condition = p.matches()
	}
	return r
}

// matches parses the part after "on".
func (p *parser) matches() node {
	var all allOf
	for first := true; ; first = false {
		t := p.word()
		switch {
		case t.kind == tokenEnd && first:
			p.fail(t.at, "any or a condition is expected")
		case t.kind == tokenEnd:
			return all
		case first && t.is("any"):
			if t = p.word(); t.kind != tokenEnd {
				p.fail(t.at, "nothing goes with any, so %s can't follow it", &t)
			}
			return anyTerm{}
		case t.is("process.exe"):
			all = append(all, p.path())
		case t.is("process.pid"), t.is("process.ppid"), t.is("process.uid"), t.is("process.gid"), t.is("process.sid"):
			least := uint64(0)
			if strings.HasSuffix(t.text, "pid") {
				least = 1
			}
			value := p.word()
			n := p.number(&value, least, math.MaxUint32)
			all = append(all, &numberTerm{numberField: fields[strings.TrimPrefix(t.text, "process.")].(*numberField), in: []interval{{n, n}}})
		case t.is("file.path"):
			p.fail(t.at, "quark has no events of files")
		default:
			p.fail(t.at, "%s is no condition: choose from any, process.pid, process.ppid, process.uid, process.gid, process.sid, process.exe", &t)
		}
	}
}

// path parses the path of an executable, in which one * stands for anything.
func (p *parser) path() node {
	t := p.word()
	switch {
	case t.kind == tokenEnd || t.text == "":
		p.fail(t.at, "a path is expected")
	case !strings.ContainsRune("/*(", rune(t.text[0])):
		p.fail(t.at, "a path begins with a slash: put / or */ before %.40q", t.text)
	case len(t.text) >= maxWord:
		p.fail(t.at, "a path has less than %d bytes", maxWord)
	}
	before, after, star := strings.Cut(t.text, "*")
	if strings.Contains(after, "*") {
		p.fail(t.at, "a path with more than one *: write \"if exe ~ ...\"")
	}
	var is patterns
	if star {
		g, _ := glob.Compile(glob.Quote(before) + "*" + glob.Quote(after))
		is.globs = []glob.Glob{g}
	} else {
		is.texts = []string{t.text}
	}
	return &textTerm{fields["exe"].(*textField), is}
}
