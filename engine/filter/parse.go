package filter

import (
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/engine/glob"
)

// Parse compiles an expression. The error is an *[Error].
func Parse(expression string) (f *Filter, err error) {
	defer catch(&err)
	p := newParser(expression)
	p.advance()
	p.filter.conditions = []node{p.whole()}
	return p.filter, nil
}

// Compare compiles the term "field op (value, ...)". The values have no quoting: they come from
// elsewhere, such as options.
func Compare(field, op string, values ...string) (f *Filter, err error) {
	defer catch(&err)
	p := newParser("")
	p.ready = append(p.ready, token{tokenWord, field, 0}, token{tokenSymbol, op, 0}, token{tokenSymbol, "(", 0})
	for i, v := range values {
		if i > 0 {
			p.ready = append(p.ready, token{tokenSymbol, ",", 0})
		}
		p.ready = append(p.ready, token{tokenValue, v, 0})
	}
	p.ready = append(p.ready, token{tokenSymbol, ")", 0})
	p.advance()
	p.filter.conditions = []node{p.whole()}
	return p.filter, nil
}

// parser compiles a source to a filter.
type parser struct {
	scanner
	t      token // the next token
	ready  []token
	depth  int
	filter *Filter
}

func newParser(source string) *parser {
	p := &parser{scanner: scanner{src: source}, filter: new(Filter)}
	if len(source) > maxLength {
		p.src = ""
		p.fail(0, "longer than %d bytes", maxLength)
	}
	return p
}

// advance reads the next token.
func (p *parser) advance() {
	if len(p.ready) > 0 {
		p.t, p.ready = p.ready[0], p.ready[1:]
		return
	}
	p.t = p.next()
}

// accept reports whether the next token is this word or symbol, and consumes it if so.
func (p *parser) accept(text string) bool {
	if !p.t.is(text) {
		return false
	}
	p.advance()
	return true
}

// whole parses an expression up to the end of the source.
func (p *parser) whole() node {
	n := p.or()
	if p.t.kind != tokenEnd {
		p.fail(p.t.at, "and, or or the end is expected, not %s", &p.t)
	}
	return n
}

func (p *parser) or() node {
	n := p.and()
	if !p.t.is("or") {
		return n
	}
	any := oneOfs{n}
	for p.accept("or") {
		any = append(any, p.and())
	}
	return any
}

func (p *parser) and() node {
	n := p.unary()
	if !p.t.is("and") {
		return n
	}
	all := allOf{n}
	for p.accept("and") {
		all = append(all, p.unary())
	}
	return all
}

func (p *parser) unary() node {
	if p.depth++; p.depth > maxDepth {
		p.fail(p.t.at, "more than %d parentheses and nots in each other", maxDepth)
	}
	defer func() { p.depth-- }()
	open := p.t.at
	switch {
	case p.accept("not"):
		return not{p.unary()}
	case p.accept("("):
		n := p.or()
		if p.t.kind == tokenEnd {
			p.fail(open, "this ( is not closed")
		}
		if !p.accept(")") {
			p.fail(p.t.at, "and, or or ) is expected, not %s", &p.t)
		}
		return n
	}
	return p.term()
}

func (p *parser) term() node {
	t := p.t
	if t.kind != tokenWord || isKeyword(t.text) {
		p.fail(t.at, "a kind of event or a field is expected, not %s", &t)
	}
	p.advance()
	if k, ok := kinds[strings.ToLower(t.text)]; ok {
		return kindTerm(k)
	}
	switch t.text {
	case "failed":
		return failedTerm{}
	case "thread":
		return threadTerm{}
	case "known", "cached":
		return p.state(t.text == "cached")
	case "tree":
		return p.tree()
	case "tag":
		return p.tag()
	}
	if f := p.field(t.text); f != nil {
		return f.term(p, t.text)
	}
	if id, ok := ofNames[t.text]; ok {
		p.fail(t.at, "%s is no field: write %s, which takes names too", &t, id)
	}
	p.fail(t.at, "%s is no kind of event and no field: choose from %s", &t, strings.Join(words(), ", "))
	return nil
}

// ofNames maps columns of names to the fields of the ids.
var ofNames = map[string]string{"user": "uid", "euser": "euid", "group": "gid", "egroup": "egid", "login_user": "login_uid"}

var (
	keywords = []string{"and", "or", "not"}
	flags    = []string{"failed", "thread", "known", "cached", "tree", "tag"}
)

func isKeyword(word string) bool { return slices.Contains(keywords, word) }

// words returns the words with which a term can begin.
func words() []string {
	list := slices.Concat(flags, slices.Collect(maps.Keys(kinds)), slices.Collect(maps.Keys(fields)), []string{environment + "NAME"})
	slices.Sort(list)
	return list
}

// field returns the field with this name, or nil.
func (p *parser) field(name string) field {
	if variable, ok := strings.CutPrefix(name, environment); ok && variable != "" {
		p.filter.variables = append(p.filter.variables, variable)
		return &listField{engine.FieldEnviron.Set(), func(p *engine.Process) []byte { return p.Environ }, variable + "="}
	}
	return fields[name]
}

func (p *parser) state(cached bool) node {
	t := p.t
	s := stateTerm{cached: cached, word: word("known " + t.text)}
	if cached {
		s.word = word("cached " + t.text)
	}
	if f := p.field(t.text); f != nil {
		s.fields, _ = f.needs()
	}
	if t.kind != tokenWord || s.fields == 0 {
		p.fail(t.at, "a field of a process is expected, not %s", &t)
	}
	p.advance()
	return s
}

// operator parses an operator, which must be one of some.
func (p *parser) operator(name string, some ...string) string {
	t := p.t
	if t.kind != tokenSymbol || !slices.Contains(some, t.text) {
		p.fail(t.at, "after %s one of %s is expected, not %s", name, strings.Join(some, " "), &t)
	}
	p.advance()
	return t.text
}

// values parses a value, or several in parentheses, and calls f with each.
func (p *parser) values(f func(*token)) {
	list := p.accept("(")
	for {
		t := p.t
		if t.kind != tokenQuoted && t.kind != tokenValue && (t.kind != tokenWord || isKeyword(t.text)) {
			p.fail(t.at, "a value is expected, not %s", &t)
		}
		f(&t)
		p.advance()
		switch {
		case !list, p.accept(")"):
			return
		case !p.accept(","):
			p.fail(p.t.at, "a comma or ) is expected, not %s", &p.t)
		}
	}
}

func (p *parser) tree() node {
	t := &markTerm{word: "tree", none: p.operator("tree", "==", "!=") == "!="}
	p.values(func(v *token) { t.pids = append(t.pids, uint32(p.number(v, 1, maxPID))) })
	addNew(&p.filter.trees, t.pids...)
	return t
}

func (p *parser) tag() node {
	t := &markTerm{word: "tag", none: p.operator("tag", "==", "!=") == "!="}
	p.values(func(v *token) { t.tags = append(t.tags, v.text) })
	addNew(&p.filter.tagTerms, t.tags...)
	return t
}

func (f *numberField) term(p *parser, name string) node {
	op := p.operator(name, "==", "!=", "<", "<=", ">", ">=")
	n := &numberTerm{word: word(name), numberField: f, none: op == "!="}
	if op != "==" && op != "!=" && p.t.is("(") {
		p.fail(p.t.at, "only == and != take several values")
	}
	p.values(func(t *token) {
		v := f.value(p, t, name)
		in := interval{v, v}
		switch op {
		case "<":
			if v <= f.least {
				p.fail(t.at, "nothing is below %d", f.least)
			}
			in = interval{0, v - 1}
		case "<=":
			in.from = 0
		case ">":
			if v >= f.most {
				p.fail(t.at, "nothing is above %d", f.most)
			}
			in = interval{v + 1, math.MaxUint64}
		case ">=":
			in.to = math.MaxUint64
		}
		if in.to < f.least || f.most < in.from {
			p.failNumber(t, f.least, f.most)
		}
		n.in = append(n.in, in)
	})
	return n
}

// value returns the value of a token.
func (f *numberField) value(p *parser, t *token, name string) uint64 {
	if t.kind == tokenQuoted {
		p.fail(t.at, "%s has a number, which stands without quotes", name)
	}
	if f.read != nil {
		switch n, ok := f.read(t.text); {
		case ok:
			return n
		case f.want != "":
			p.fail(t.at, "%s is expected, not %s", f.want, t)
		}
	}
	if f.database != "" && strings.Trim(t.text, "+-0123456789") != "" {
		n, ok := hostID(f.database, t.text)
		if !ok {
			p.fail(t.at, "/etc/%s has no %.40q: give the id, which getent %[1]s prints if a directory service has it", f.database, t.text)
		}
		return n
	}
	n, ok := decimal(t)
	if !ok {
		p.failNumber(t, f.least, f.most)
	}
	return n
}

// number returns the value of a decimal number with bounds.
func (p *parser) number(t *token, least, most uint64) uint64 {
	n, ok := decimal(t)
	if !ok || n < least || n > most {
		p.failNumber(t, least, most)
	}
	return n
}

func decimal(t *token) (n uint64, ok bool) {
	n, err := strconv.ParseUint(t.text, 10, 64)
	return n, err == nil && t.kind != tokenQuoted && t.text[0] != '+'
}

func (p *parser) failNumber(t *token, least, most uint64) {
	p.fail(t.at, "a number from %d to %d is expected, not %s", least, most, t)
}

func (f *textField) term(p *parser, name string) node {
	return &textTerm{f, p.patterns(name, f), word(name)}
}

func (f *listField) term(p *parser, name string) node {
	return &listTerm{f, p.patterns(name, new(textField)), word(name)}
}

func (f *setField) term(p *parser, name string) node {
	t := &setTerm{word: word(name), setField: f, none: p.operator(name, "==", "!=") == "!="}
	names := append(slices.Clip(f.names), "none")
	p.values(func(v *token) {
		if i := p.one(v, names); i < len(f.names) {
			t.bits |= 1 << i
		} else {
			t.empty = true
		}
	})
	return t
}

// one returns the index of a token among some values.
func (p *parser) one(t *token, among []string) int {
	i := slices.Index(among, t.text)
	if i < 0 {
		p.fail(t.at, "%s is none of %s", t, strings.Join(among, ", "))
	}
	return i
}

// patterns parses an operator of texts and the values of a field.
func (p *parser) patterns(name string, f *textField) patterns {
	op := p.operator(name, "==", "!=", "~", "!~")
	is := patterns{none: op[0] == '!'}
	compile := glob.Compile
	if f.path {
		compile = glob.CompilePath
	}
	p.values(func(t *token) {
		exact, pattern := op == "==" || op == "!=", t.text
		if exact {
			pattern = glob.Quote(pattern)
		}
		if f.rooted && pattern != "" && f != cgroup && !p.rules {
			p.filter.paths = append(p.filter.paths, Path{name, t.text})
		}
		switch {
		case !f.rooted || pattern == "":
		case f == executable && !strings.Contains(pattern, "/") && !strings.HasPrefix(pattern, "**"):
			pattern, exact = "**/"+pattern, false
		case !strings.ContainsRune("/*?[(", rune(pattern[0])):
			p.fail(t.at, "%s begins with a slash: put / or **/ before %.40q", name, t.text)
		}
		if f.rooted {
			p.checkPath(t, name)
		}
		g, err := compile(pattern)
		switch {
		case err != nil:
			p.fail(t.at, "%v", err)
		case f.most > 0 && g.Least() > f.most:
			p.fail(t.at, "%s has at most %d bytes, and %.40q more", name, f.most, t.text)
		case f.among != nil && !slices.ContainsFunc(f.among, g.Match):
			p.fail(t.at, "%s is none of %s", t, strings.TrimPrefix(strings.Join(f.among, ", "), ", "))
		case f.digits > 0 && (g.Least() > f.digits || exact && !isHex(t.text, f.digits)):
			p.fail(t.at, "%s has %d hexadecimal digits, and %.40q is not these", name, f.digits, t.text)
		case exact:
			is.texts = append(is.texts, t.text)
		default:
			is.globs = append(is.globs, g)
		}
	})
	return is
}

// checkPath fails if the kernel has no such path: its paths have no empty name, . or ..
func (p *parser) checkPath(t *token, name string) {
	names := strings.Split(t.text, "/")
	last := len(names) - 1
	for i, n := range names {
		if n == "." || n == ".." && name != "cgroup" || n == "" && 0 < i && (i < last || i > 1 && !strings.Contains(t.text, "*")) {
			p.fail(t.at, "%s has no empty name, . or .. in it: write %.80q", name, path.Clean(t.text))
		}
	}
}

// isHex reports whether a text has so many hexadecimal digits in lower case.
func isHex(text string, digits int) bool {
	return len(text) == digits && strings.Trim(text, "0123456789abcdef") == ""
}
