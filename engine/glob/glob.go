// Package glob matches texts, such as names and paths, with patterns. In a pattern, * matches any
// characters, ? one character, [a-z] and [!a-z] one character of a set. \ makes the next character
// literal. In a pattern for paths none of these matches a slash, and ** matches any characters.
package glob

import (
	"errors"
	"strings"
	"unicode/utf8"
)

// Glob is a compiled pattern.
type Glob struct {
	elements []element
	path     bool
}

type element struct {
	kind elementKind
	text string // of a literal
	set  []interval
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

type interval struct{ from, to rune }

// Compile compiles a pattern in which a slash is an ordinary character.
func Compile(pattern string) (Glob, error) { return compile(pattern, false) }

// CompilePath compiles a pattern of paths.
func CompilePath(pattern string) (Glob, error) { return compile(pattern, true) }

// Quote returns a pattern that only this text matches.
func Quote(text string) string { return quoting.Replace(text) }

var quoting = strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `\`, `\\`)

func compile(pattern string, path bool) (g Glob, err error) {
	g.path = path
	for pattern != "" {
		e := element{}
		switch c := pattern[0]; c {
		case '*':
			n := len(pattern) - len(strings.TrimLeft(pattern, "*"))
			if n > 2 {
				return Glob{}, errors.New("the pattern has more than two * in a row")
			}
			e.kind = anything
			if n == 1 && path {
				e.kind = anyName
			}
			pattern = pattern[n:]
		case '?':
			e.kind, pattern = anyOne, pattern[1:]
		case '[':
			if e, pattern, err = compileSet(pattern[1:]); err != nil {
				return Glob{}, err
			}
		case '\\':
			if pattern = pattern[1:]; pattern == "" {
				return Glob{}, errors.New(`the pattern has a \ at the end`)
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
		if last := len(g.elements) - 1; last >= 0 && e.kind == literal && g.elements[last].kind == literal {
			g.elements[last].text += e.text
			continue
		}
		g.elements = append(g.elements, e)
	}
	return g, nil
}

var errUnclosed = errors.New("the pattern has [ without ]")

// compileSet compiles a set after its "[".
func compileSet(pattern string) (e element, rest string, err error) {
	e.kind = oneOf
	if pattern != "" && (pattern[0] == '!' || pattern[0] == '^') {
		e.kind, pattern = noneOf, pattern[1:]
	}
	for first := true; ; first = false {
		if pattern == "" {
			return e, "", errUnclosed
		}
		if pattern[0] == ']' && !first {
			return e, pattern[1:], nil
		}
		var in interval
		if in.from, pattern, err = member(pattern); err != nil {
			return e, "", err
		}
		in.to = in.from
		if len(pattern) > 1 && pattern[0] == '-' && pattern[1] != ']' {
			if in.to, pattern, err = member(pattern[1:]); err != nil {
				return e, "", err
			}
			if in.to < in.from {
				return e, "", errors.New("the pattern has a range in [] whose end is before its beginning")
			}
		}
		e.set = append(e.set, in)
	}
}

// member returns the first character of the rest of a set.
func member(pattern string) (r rune, rest string, err error) {
	if pattern[0] == '\\' {
		if pattern = pattern[1:]; pattern == "" {
			return 0, "", errUnclosed
		}
	}
	r, n := character(pattern)
	return r, pattern[n:], nil
}

// character returns the first character of a text, which must not be empty, and its length. A byte
// that is not UTF-8 counts as a character above all others.
func character(s string) (rune, int) {
	r, n := utf8.DecodeRuneInString(s)
	if r == utf8.RuneError && n == 1 {
		r = utf8.MaxRune + 1 + rune(s[0])
	}
	return r, n
}

// Least returns the length in bytes of the shortest text that matches.
func (g *Glob) Least() (n int) {
	for _, e := range g.elements {
		switch e.kind {
		case literal:
			n += len(e.text)
		case anyOne, oneOf, noneOf:
			n++
		}
	}
	return n
}

// Match reports whether the whole text matches. After a *, it tries the rest of the pattern at each
// position. If there are several *, it retries only the last: the earliest match of the part before
// the last * leaves the most room. The same holds for **.
func (g *Glob) Match(s string) bool {
	type retry struct{ next, at int } // index of the element after the star, position to try
	name, all := retry{-1, 0}, retry{-1, 0}
	i, p := 0, 0
	for {
		if i == len(g.elements) && p == len(s) {
			return true
		}
		if i < len(g.elements) {
			switch g.elements[i].kind {
			case anything:
				if i++; i == len(g.elements) {
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
			if n := g.elements[i].matchOne(s[p:], g.path); n >= 0 {
				i, p = i+1, p+n
				continue
			}
		}
		switch {
		case name.next >= 0 && name.at < len(s) && !(g.path && s[name.at] == '/'):
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

// seek returns the first position from pos on at which the element, which follows a **, may match,
// or -1. It does not search for a literal that begins in the middle of a character.
func (g *Glob) seek(element int, s string, pos int) int {
	if e := &g.elements[element]; e.kind == literal && utf8.RuneStart(e.text[0]) {
		if n := strings.Index(s[pos:], e.text); n >= 0 {
			return pos + n
		}
		return -1
	}
	return pos
}

// matchOne returns the number of bytes that the element matches at the beginning of s, or -1 if it
// does not match. The element is not a star.
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
		found = found || in.from <= r && r <= in.to
	}
	if found != (e.kind == oneOf) {
		return -1
	}
	return n
}
