package monitor

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"
)

// wanted are the members of an object to decode, by name. A nil entry means the whole member.
type wanted map[string]wanted

// add adds a path.
func (w wanted) add(path string) {
	if path == "" {
		return
	}
	name, rest, more := strings.Cut(path, "/")
	sub, ok := w[name]
	switch {
	case !more:
		w[name] = nil
	case ok && sub == nil: // the whole member is wanted already
	default:
		if sub == nil {
			sub = make(wanted)
			w[name] = sub
		}
		sub.add(rest)
	}
}

var (
	errJSON  = errors.New("no JSON")
	errDepth = errors.New("no JSON that is less than a hundred levels deep")
)

// part decodes the wanted members of a JSON text, like package json with UseNumber, and skips the
// others.
type part struct {
	text  []byte
	depth int
}

// readPart returns the first value of a text, with the wanted members of objects only.
func readPart(text []byte, w wanted) (any, error) {
	p := &part{text: text}
	return p.value(w, false)
}

// next skips white space and returns the byte that follows, 0 at the end.
func (p *part) next() byte {
	for i, c := range p.text {
		if c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			p.text = p.text[i:]
			return c
		}
	}
	p.text = nil
	return 0
}

// value reads a value. It returns the wanted members of an object, or all members if all is set.
func (p *part) value(w wanted, all bool) (any, error) {
	switch c := p.next(); {
	case c == '{':
		return p.object(w, all)
	case c == '[':
		return p.list(all)
	case c == '"':
		return p.string()
	case c == 0:
		return nil, errJSON
	}
	end := bytes.IndexAny(p.text, ",]} \t\r\n")
	if end < 0 {
		end = len(p.text)
	}
	word := p.text[:end]
	p.text = p.text[end:]
	switch string(word) {
	case "null":
		return nil, nil
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	if !isNumber(word) {
		return nil, errJSON
	}
	return json.Number(word), nil
}

// isNumber reports whether a word is a number.
func isNumber(word []byte) bool {
	simple := len(word) > 0 && (word[0] != '0' || len(word) == 1)
	for _, c := range word {
		simple = simple && c >= '0' && c <= '9'
	}
	return simple || len(word) > 0 && (word[0] == '-' || word[0] >= '0' && word[0] <= '9') && json.Valid(word)
}

// enter reads an opening bracket.
func (p *part) enter() error {
	if p.depth++; p.depth > 100 {
		return errDepth
	}
	p.text = p.text[1:]
	return nil
}

// more reports whether another element follows in a list or object that ends with the byte end.
func (p *part) more(first bool, end byte) (bool, error) {
	switch c := p.next(); {
	case c == end:
		p.text = p.text[1:]
		p.depth--
		return false, nil
	case first && c != 0:
		return true, nil
	case first || c != ',':
		return false, errJSON
	}
	p.text = p.text[1:]
	return true, nil
}

func (p *part) object(w wanted, all bool) (any, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	members := make(map[string]any, len(w))
	for first := true; ; first = false {
		if more, err := p.more(first, '}'); err != nil || !more {
			return members, err
		}
		if p.next() != '"' {
			return nil, errJSON
		}
		name, err := p.string()
		if err != nil {
			return nil, err
		}
		if p.next() != ':' {
			return nil, errJSON
		}
		p.text = p.text[1:]
		sub, ok := w[name]
		if !ok && !all {
			if err := p.skip(); err != nil {
				return nil, err
			}
			continue
		}
		if members[name], err = p.value(sub, all || sub == nil); err != nil {
			return nil, err
		}
	}
}

func (p *part) list(all bool) (any, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	items := []any{}
	for first := true; ; first = false {
		if more, err := p.more(first, ']'); err != nil || !more {
			return items, err
		}
		v, err := p.value(nil, all)
		if err != nil {
			return nil, err
		}
		items = append(items, v)
	}
}

// raw returns a string with its quotes.
func (p *part) raw() ([]byte, error) {
	for i := 1; i < len(p.text); i++ {
		switch p.text[i] {
		case '\\':
			i++
		case '"':
			raw := p.text[:i+1]
			p.text = p.text[i+1:]
			return raw, nil
		}
	}
	return nil, errJSON
}

func (p *part) string() (s string, err error) {
	raw, err := p.raw()
	if err != nil {
		return "", err
	}
	for _, c := range raw {
		if c == '\\' || c < ' ' || c >= utf8.RuneSelf {
			err := json.Unmarshal(raw, &s)
			return s, err
		}
	}
	return string(raw[1 : len(raw)-1]), nil
}

// skip skips a value. It checks strings and brackets only.
func (p *part) skip() error {
	for depth := 0; ; {
		switch p.next() {
		case 0:
			return errJSON
		case '"':
			if _, err := p.raw(); err != nil {
				return err
			}
		case '{', '[':
			depth++
			p.text = p.text[1:]
		case '}', ']':
			if depth == 0 {
				return errJSON
			}
			depth--
			p.text = p.text[1:]
		case ',', ':':
			if depth == 0 {
				return errJSON
			}
			p.text = p.text[1:]
			continue
		default:
			end := bytes.IndexAny(p.text, ",:]}[{\" \t\r\n")
			if end < 0 {
				end = len(p.text)
			}
			p.text = p.text[end:]
		}
		if depth == 0 {
			return nil
		}
	}
}
