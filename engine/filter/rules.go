package filter

import (
	"strings"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/engine/glob"
)

// rule is a line of a file of rules.
type rule struct {
	name      string // "" for none
	action    action
	tag       string // for actionTag and actionUntag
	condition node
}

// action is the effect of a rule whose condition is true.
type action uint8

const (
	actionPass action = iota
	actionDrop
	actionTag
	actionUntag
)

// decide applies rules to an event, those of tags first.
func (m *Matcher) decide(rules []rule, ev *engine.Event) engine.Verdict {
	mayPass, mayDrop, decided := false, false, false
	for i := range rules {
		if r := &rules[i]; r.action >= actionTag && !ev.Thread {
			m.setTag(r, ev.Process, r.condition.eval(m, ev))
		}
	}
	for i := range rules {
		r := &rules[i]
		if r.action >= actionTag {
			continue
		}
		t := r.condition.eval(m, ev)
		if t == no {
			continue
		}
		if r.action == actionPass && r.name != "" {
			m.passed = append(m.passed, r.name)
		}
		mayPass, mayDrop = mayPass || r.action == actionPass, mayDrop || r.action == actionDrop
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

// setTag gives p the tag of a rule, or removes it, depending on the condition's result.
func (m *Matcher) setTag(r *rule, p *engine.Process, is truth) {
	bit, marks := m.markOf(r.tag), &p.Marks
	switch {
	case is == yes:
		marks.Set, marks.Maybe = marks.Set&^bit, marks.Maybe&^bit
		if r.action == actionTag {
			marks.Set |= bit
		}
	case is == unknown && (r.action == actionTag) == (marks.Set&bit == 0):
		marks.Set, marks.Maybe = marks.Set&^bit, marks.Maybe|bit
	}
}

// ParseRules compiles a file of rules. The error is an *[Error].
func ParseRules(source string) (f *Filter, err error) {
	defer catch(&err)
	p := newParser(source)
	p.rules = true
	var rules []rule
	for {
		for !p.skipBlank() {
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
	t := p.word()
	if name, ok := strings.CutSuffix(t.text, ":"); ok && t.kind == tokenWord {
		r.name = p.name(&t, name)
		t = p.word()
	}
	switch {
	case t.is("pass"):
	case t.is("drop"):
		r.action = actionDrop
	case t.is("tag"), t.is("untag"):
		if r.action = actionTag; t.text == "untag" {
			r.action = actionUntag
		}
		t = p.word()
		r.tag = p.name(&t, t.text)
		addNew(&p.filter.tags, r.tag)
	default:
		p.fail(t.at, "%s is no action: a rule begins with pass, drop, tag or untag, or with NAME:", &t)
	}
	switch t := p.word(); {
	case t.is("if"):
		p.advance()
		r.condition = p.whole()
	case !t.is("on"):
		p.fail(t.at, "on or if is expected, not %s", &t)
	default:
		r.condition = p.matches()
	}
	return r
}

// name returns the name of a rule or a tag, which is the token's whole text or its beginning.
func (p *parser) name(t *token, name string) string {
	for _, c := range name {
		if !strings.ContainsRune(nameRunes, c) {
			name = ""
		}
	}
	if t.kind != tokenWord || name == "" || len(name) > maxName {
		p.fail(t.at, "a name is expected, of up to %d ASCII letters, digits and - _ . /, not %s", maxName, t)
	}
	return name
}

const (
	nameRunes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./"
	maxName   = 64
)

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
			name := strings.TrimPrefix(t.text, "process.")
			value, f := p.word(), fields[name].(*numberField)
			n := p.number(&value, f.least, f.most)
			all = append(all, &numberTerm{f, []interval{{n, n}}, false, word(name)})
		case t.is("file.path"):
			p.fail(t.at, "quark has no events of files")
		default:
			p.fail(t.at, "%s is no condition: choose from any, process.pid, process.ppid, process.uid, process.gid, process.sid, process.exe", &t)
		}
	}
}

// path parses the path of an executable, in which one * matches any characters.
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
	return &textTerm{executable, is, "exe"}
}
