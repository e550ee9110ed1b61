package filter

import (
	"strings"
	"unicode/utf8"
)

// glob is a compiled pattern.
type glob []element

type element struct {
	kind elementKind
	text string // of a literal
	set  []interval[rune]
}

type elementKind uint8

const (
	literal  elementKind = iota
	anyOne               // ?
	oneOf                // [...]
	noneOf               // [!...]
	anyName              // *
	anything             // **
)

type interval[T rune | uint64] struct{ from, to T }

func (i interval[T]) has(v T) bool { return i.from <= v && v <= i.to }

// compileGlob compiles a pattern. If it is not one of a path, * is the same as **. It returns what
// is wrong, "" if nothing.
func compileGlob(pattern string, path bool) (g glob, wrong string) {
	for pattern != "" {
		e := element{}
		switch c := pattern[0]; c {
		case '*':
			n := len(pattern) - len(strings.TrimLeft(pattern, "*"))
			if n > 2 {
				return nil, "more than two * in a row"
			}
			e.kind = anything
			if n == 1 && path {
				e.kind = anyName
			}
			pattern = pattern[n:]
		case '?':
			e.kind, pattern = anyOne, pattern[1:]
		case '[':
			if e, pattern, wrong = compileSet(pattern[1:]); wrong != "" {
				return nil, wrong
			}
		case '\\':
			if pattern = pattern[1:]; pattern == "" {
				return nil, `a \ at the end`
			}
			_, n := utf8.DecodeRuneInString(pattern)
			e.text, pattern = pattern[:n], pattern[n:]
		default:
			n := strings.IndexAny(pattern, `*?[\`)
			if n < 0 {
				n = len(pattern)
			}
			e.text, pattern = pattern[:n], pattern[n:]
		}
		if last := len(g) - 1; last >= 0 && e.kind == literal && g[last].kind == literal {
			g[last].text += e.text
			continue
		}
		g = append(g, e)
	}
	return g, ""
}

// compileSet compiles a set after its "[".
func compileSet(pattern string) (e element, rest, wrong string) {
	e.kind = oneOf
	if pattern != "" && (pattern[0] == '!' || pattern[0] == '^') {
		e.kind, pattern = noneOf, pattern[1:]
	}
	for first := true; ; first = false {
		if pattern == "" {
			return e, "", "[ without ]"
		}
		if pattern[0] == ']' && !first {
			return e, pattern[1:], ""
		}
		var in interval[rune]
		if in.from, pattern, wrong = member(pattern); wrong != "" {
			return e, "", wrong
		}
		in.to = in.from
		if len(pattern) > 1 && pattern[0] == '-' && pattern[1] != ']' {
			if in.to, pattern, wrong = member(pattern[1:]); wrong != "" {
				return e, "", wrong
			}
			if in.to < in.from {
				return e, "", "a range in [] whose end is before its beginning"
			}
		}
		e.set = append(e.set, in)
	}
}

// member returns the first character of the rest of a set.
func member(pattern string) (r rune, rest, wrong string) {
	if pattern[0] == '\\' {
		if pattern = pattern[1:]; pattern == "" {
			return 0, "", "[ without ]"
		}
	}
	r, n := character(pattern)
	return r, pattern[n:], ""
}

// character returns the first character of a text, which is not empty, and its length. A byte that
// is not UTF-8 is a character above all others.
func character(s string) (rune, int) {
	r, n := utf8.DecodeRuneInString(s)
	if r == utf8.RuneError && n == 1 {
		r = utf8.MaxRune + 1 + rune(s[0])
	}
	return r, n
}

// match reports whether the whole text matches. After a * the rest of the pattern is tried from
// each place on; of several only the last one, since the earliest match of what stands before it
// leaves the most room, and of ** likewise.
func (g glob) match(s string, path bool) bool {
	type retry struct{ next, at int } // element after the star, where it is tried
	name, all := retry{-1, 0}, retry{-1, 0}
	i, p := 0, 0
	for {
		if i == len(g) && p == len(s) {
			return true
		}
		if i < len(g) {
			switch g[i].kind {
			case anything:
				if i++; i == len(g) {
					return true
				}
				if p = g.seek(i, s, p); p < 0 {
					return false
				}
				all, name.next = retry{i, p}, -1
				continue
			case anyName:
				i++
				name = retry{i, p}
				continue
			}
			if n := g[i].matchOne(s[p:], path); n >= 0 {
				i, p = i+1, p+n
				continue
			}
		}
		switch {
		case name.next >= 0 && name.at < len(s) && !(path && s[name.at] == '/'):
			_, n := character(s[name.at:])
			name.at += n
			i, p = name.next, name.at
		case all.next >= 0 && all.at < len(s):
			_, n := character(s[all.at:])
			if all.at = g.seek(all.next, s, all.at+n); all.at < 0 {
				return false
			}
			i, p, name.next = all.next, all.at, -1
		default:
			return false
		}
	}
}

// seek returns the first place from p on at which element i, after a **, may match, -1 if there is
// none. A literal that begins in the middle of a character is not looked for.
func (g glob) seek(i int, s string, p int) int {
	if e := &g[i]; e.kind == literal && utf8.RuneStart(e.text[0]) {
		if n := strings.Index(s[p:], e.text); n >= 0 {
			return p + n
		}
		return -1
	}
	return p
}

// matchOne returns how many bytes of s the element, which is no star, matches at its beginning, -1
// if it does not match.
func (e *element) matchOne(s string, path bool) int {
	if e.kind == literal {
		if strings.HasPrefix(s, e.text) {
			return len(e.text)
		}
		return -1
	}
	if s == "" || path && s[0] == '/' {
		return -1
	}
	r, n := character(s)
	if e.kind == anyOne {
		return n
	}
	found := false
	for _, in := range e.set {
		found = found || in.has(r)
	}
	if found != (e.kind == oneOf) {
		return -1
	}
	return n
}
