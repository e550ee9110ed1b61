package line

import (
	"strconv"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// cell is one field of a line. Its text takes w columns of a terminal, at most max.
type cell struct {
	b      []byte
	w, max int
	// keep is the length of the longest part of b that leaves a column for cutMark; keepW is
	// its width.
	keep, keepW int
	full        bool // text was cut, and ends in cutMark
	style       string
}

// cutMark ends a text that was cut. In quoted texts this character is otherwise always within
// quotation marks. A quoted text that was cut has no closing quotation mark.
const cutMark = '>'

func (c *cell) reset(max int) { *c = cell{b: c.b[:0], max: max, full: max <= 0} }

// put appends the whole text, which takes w columns, or nothing.
func (c *cell) put(s string, w int) {
	switch {
	case c.full:
	case c.w+w > c.max:
		c.full = true
		c.b, c.w = append(c.b[:c.keep], cutMark), c.keepW+1
	default:
		c.b = append(c.b, s...)
		if c.w += w; c.w < c.max {
			c.keep, c.keepW = len(c.b), c.w
		}
	}
}

// ascii appends printable characters of one column each.
func (c *cell) ascii(s string) {
	if w := c.w + len(s); !c.full && w < c.max { // the whole text leaves a column for cutMark
		c.b = append(c.b, s...)
		c.w, c.keep, c.keepW = w, len(c.b), w
		return
	}
	for i := range len(s) {
		c.put(s[i:i+1], 1)
	}
}

func (c *cell) uint(v uint64) {
	var b [20]byte
	c.ascii(string(strconv.AppendUint(b[:0], v, 10)))
}

// Fit returns s as a line shows it, cut to a width, and the number of its columns. s may contain
// any bytes.
func Fit(s string, width int) (text string, taken int) {
	c := cell{max: width, full: width <= 0}
	c.quote(s)
	return string(c.b), c.w
}

// quoting is a way to quote a text, so that a shell reads it as one word.
type quoting uint8

const (
	plain   quoting = iota
	quoted          // 'a b'
	escaped         // $'a\nb'
)

// quote appends s, which may contain any bytes, in shell syntax: plain, in quotation marks, or with
// the escapes of Go and bash for unprintable characters.
func (c *cell) quote(s string) {
	// A longer text cannot fit: each column shows one character of at most 4 bytes, and its
	// marks.
	if room := c.max - c.w; room < len(s)/(4+4*maxMarks) {
		s = s[:(room+1)*(4+4*maxMarks)]
	}
	how, plains := plain, 0
	for plains < len(s) && plainBytes[s[plains]] {
		plains++
	}
	switch {
	case s == "":
		how = quoted
	case plains == len(s):
		c.ascii(s)
		return
	}
	for i, marks := 0, 0; i < len(s) && how != escaped; {
		ch := next(s[i:], &marks)
		how = max(how, ch.quoting)
		i += ch.size
	}
	switch how {
	case quoted:
		c.put("'", 1)
	case escaped:
		c.put("$'", 2)
	}
	for i, marks := 0, 0; i < len(s) && !c.full; {
		ch := next(s[i:], &marks)
		text := s[i : i+ch.size]
		if how == escaped && (ch.quoting == escaped || text == `\`) {
			text = escape(text)
			ch.width = len(text)
		}
		c.put(text, ch.width)
		i += ch.size
	}
	if how != plain {
		c.put("'", 1)
	}
}

// plainBytes marks the characters that need no quotation marks.
var plainBytes = func() (is [256]bool) {
	for _, c := range []byte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789%+,-./:=@_") {
		is[c] = true
	}
	return is
}()

// escape returns a character, or an invalid byte, in ASCII.
func escape(s string) string {
	r, size := utf8.DecodeRuneInString(s)
	if r == utf8.RuneError && size == 1 {
		return `\x` + strconv.FormatUint(uint64(s[0]), 16)
	}
	s = strconv.QuoteRuneToASCII(r)
	return s[1 : len(s)-1]
}

// character is the first character of a text.
type character struct {
	size, width int // in bytes; in columns if printed unchanged
	quoting
}

// maxMarks limits the marks, such as accents, on one character. More marks would cover other lines.
const maxMarks = 2

// next decodes the first character of s. marks is the number of marks that may still follow the
// character before, 0 at the start of a text.
func next(s string, marks *int) character {
	r, size := utf8.DecodeRuneInString(s)
	ch := character{size: size, width: 1}
	if unicode.In(r, unicode.Mn, unicode.Me) {
		switch {
		case *marks == 0:
			ch.quoting = escaped
			return ch
		case r != emojiStyle:
			ch.width = 0
		}
		*marks--
		return ch
	}
	*marks = maxMarks
	switch {
	case r == '\'' || r == utf8.RuneError && size == 1 || !strconv.IsPrint(r):
		ch.quoting = escaped
	case r < utf8.RuneSelf:
		if !plainBytes[r] {
			ch.quoting = quoted
		}
	default:
		switch width.LookupRune(r).Kind() {
		case width.EastAsianWide, width.EastAsianFullwidth:
			ch.width = 2
		}
	}
	return ch
}

// emojiStyle makes the character before it two columns wide, in some terminals.
const emojiStyle = '\ufe0f'
