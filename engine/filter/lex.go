package filter

import (
	"cmp"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Error is an error in an expression or a file of rules, with its position.
type Error struct {
	Line, Column int // from 1; the column counts characters
	Msg          string
}

func (e *Error) Error() string { return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Msg) }

// token is a part of an expression.
type token struct {
	kind tokenKind
	text string // content of a word or quoted text, source text of other tokens
	at   int
}

type tokenKind uint8

const (
	tokenEnd tokenKind = iota
	tokenWord
	tokenQuoted
	tokenSymbol
	tokenValue // a value passed to Compare
)

func (t *token) is(text string) bool {
	return (t.kind == tokenWord || t.kind == tokenSymbol) && t.text == text
}

// String returns the token as shown in error messages.
func (t *token) String() string {
	switch t.kind {
	case tokenEnd:
		return "the end"
	case tokenQuoted:
		return "a text in quotes"
	}
	return fmt.Sprintf("%.40q", t.text)
}

const (
	maxLength = 1 << 20 // bytes of a source
	maxWord   = 4096    // bytes of a value, the limit of a path
	maxDepth  = 200     // of nested parentheses and nots
)

// scanner splits a source into tokens. It reports errors by panics of *Error, which Parse and
// ParseRules recover.
type scanner struct {
	src   string
	pos   int
	rules bool // a line break, and the text before it, ends a rule
}

func (s *scanner) fail(at int, format string, args ...any) {
	before := s.src[:at]
	line := strings.LastIndexByte(before, '\n') + 1
	panic(&Error{strings.Count(before, "\n") + 1, utf8.RuneCountInString(before[line:]) + 1, fmt.Sprintf(format, args...)})
}

// catch sets err to the error of a panic of fail.
func catch(err *error) {
	switch r := recover().(type) {
	case nil:
	case *Error:
		*err = r
	default:
		panic(r)
	}
}

// skipBlank skips blanks, comments and continued line ends. It returns false at the end of a rule.
func (s *scanner) skipBlank() bool {
	for s.pos < len(s.src) {
		rest := s.src[s.pos:]
		switch c := rest[0]; {
		case c == '\n' && s.rules:
			return false
		case c == ' ', c == '\t', c == '\r', c == '\n':
			s.pos++
		case c == '#':
			if n := strings.IndexByte(rest, '\n'); n >= 0 {
				s.pos += n
			} else {
				s.pos = len(s.src)
			}
		case strings.HasPrefix(rest, "\\\n"):
			s.pos += 2
		case strings.HasPrefix(rest, "\\\r\n"):
			s.pos += 3
		default:
			return true
		}
	}
	return false
}

var symbols = []string{"==", "!=", "<=", ">=", "!~", "&&", "||", "(", ")", ",", "<", ">", "~", "=", "!"}

// meanings maps symbols to the symbol or word that they stand for.
var meanings = map[string]string{"=": "==", "&&": "and", "||": "or", "!": "not"}

// next returns the next token of an expression.
func (s *scanner) next() token {
	if !s.skipBlank() {
		return token{at: s.pos}
	}
	at := s.pos
	rest := s.src[at:]
	for _, symbol := range symbols {
		if strings.HasPrefix(rest, symbol) {
			s.pos += len(symbol)
			return token{tokenSymbol, cmp.Or(meanings[symbol], symbol), at}
		}
	}
	switch c := rest[0]; c {
	case '"', '\'':
		return s.quoted()
	case '&', '|':
		s.fail(at, "%q: write \"and\", \"or\", \"not\"", string(c))
	}
	n := 0
	for n < len(rest) && inWord(rest[n]) {
		n++
	}
	if n == 0 {
		s.fail(at, "%s is not expected: put quotes around a text", s.character(at))
	}
	s.pos += n
	return s.short(token{tokenWord, rest[:n], at})
}

func (s *scanner) character(at int) string {
	r, n := utf8.DecodeRuneInString(s.src[at:])
	if r == utf8.RuneError && n == 1 {
		return fmt.Sprintf("the byte %#02x", s.src[at])
	}
	return fmt.Sprintf("%q", r)
}

func inWord(c byte) bool { return c > ' ' && c != 0x7f && strings.IndexByte("()\"',=!<>~#\\&|", c) < 0 }

func (s *scanner) short(t token) token {
	if len(t.text) > maxWord {
		s.fail(t.at, "longer than %d bytes", maxWord)
	}
	return t
}

// quoted returns the text in quotes at s.pos.
func (s *scanner) quoted() token {
	at, quote := s.pos, s.src[s.pos]
	var b strings.Builder
	for s.pos++; ; s.pos++ {
		if s.pos >= len(s.src) || s.src[s.pos] == '\n' {
			s.fail(at, "the quote is not closed in its line")
		}
		c := s.src[s.pos]
		switch {
		case c == quote:
			s.pos++
			return s.short(token{tokenQuoted, b.String(), at})
		case c == 0:
			s.fail(s.pos, "no text has a NUL")
		case c == '\\' && quote == '"':
			c = s.escape()
		}
		b.WriteByte(c)
	}
}

// escape returns the byte that the escape at s.pos represents. It moves s.pos to the escape's last
// byte.
func (s *scanner) escape() byte {
	at := s.pos
	s.pos++
	rest := s.src[s.pos:]
	if rest == "" {
		rest = "\n"
	}
	switch rest[0] {
	case '"', '\\', '\'', ' ':
		return rest[0]
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'x':
		if len(rest) > 2 {
			if high, low := hex(rest[1]), hex(rest[2]); high >= 0 && low >= 0 && high+low > 0 {
				s.pos += 2
				return byte(high<<4 | low)
			}
		}
	}
	s.fail(at, `there is no such escape: choose from \" \\ \n \r \t and \x01 to \xff, or write '...'`)
	return 0
}

// hex returns the value of a hexadecimal digit, or -1 if c is none.
func hex(c byte) int {
	if c >= 'A' && c <= 'F' {
		c += 'a' - 'A'
	}
	return strings.IndexByte("0123456789abcdef", c)
}

// word returns the next word of a rule. A blank ends the word.
func (s *scanner) word() token {
	if !s.skipBlank() {
		return token{at: s.pos}
	}
	if s.src[s.pos] == '"' {
		return s.quoted()
	}
	at := s.pos
	var b strings.Builder
	for ; s.pos < len(s.src) && !strings.ContainsRune(" \t\r\n", rune(s.src[s.pos])); s.pos++ {
		c := s.src[s.pos]
		escaped := c == '\\'
		if escaped {
			if rest := s.src[s.pos+1:]; strings.HasPrefix(rest, "\n") || strings.HasPrefix(rest, "\r\n") {
				break // the rule continues on the next line
			} else if rest == "" {
				s.fail(s.pos, "nothing follows the \\")
			}
			s.pos++
			c = s.src[s.pos]
		}
		if c < ' ' || c == 0x7f || c == '"' && !escaped {
			s.fail(s.pos, "%s is not expected in a word", s.character(s.pos))
		}
		b.WriteByte(c)
	}
	return s.short(token{tokenWord, b.String(), at})
}
