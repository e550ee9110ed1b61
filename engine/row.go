package engine

import (
	"encoding/base64"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/quark-linux/quark/engine/schema"
)

// Row is one value of a process, as declared in package schema. One function, according to its
// shape, returns the value.
type Row struct {
	// The members that most values need come first, in one cache line.

	Fields Fields                          // its field, empty if it has no flag
	has    func(p *Process, c *Clock) bool // whether the value is present, nil for always
	known  func(p *Process) bool           // in place of a flag, nil for always
	Number func(p *Process) uint64
	json   string // its key, between the comma and the value
	Shape  schema.Shape
	Unit   schema.Unit

	Name string
	OTel string // its attribute in log records of OpenTelemetry, "" for none
	ECS  string // its field in documents of the Elastic Common Schema, likewise
	Text func(p *Process) string
	List func(p *Process) []byte

	date      func(p *Process, c *Clock) time.Time
	entity    func(p *Process) Identity
	container func(c Container) string
	b64       string // the key of the base64 form

	text, tag string                // key in text, and tag of the line that it begins
	lineIf    func(p *Process) bool // whether its line is present, nil for always
}

// Rows returns the rows of all values of a process. The caller must not change them.
func Rows() []Row { return rows[:] }

// Has reports whether p has a known value.
func (r *Row) Has(p *Process, c *Clock) bool { return r.knownOf(p) && (r.has == nil || r.has(p, c)) }

// knownOf reports whether the value is known, or known to be absent.
func (r *Row) knownOf(p *Process) bool {
	return r.Fields&^p.Known == 0 && (r.known == nil || r.known(p))
}

// AppendWord appends the value as in text and JSON, without quotation marks: a number, MAJOR:MINOR,
// the name of a signal, a date. [Row.Has] must be true. Lists and sets have no such form.
func (r *Row) AppendWord(b []byte, p *Process, c *Clock) []byte {
	switch r.Shape {
	case schema.String, schema.Path:
		return append(b, r.Text(p)...)
	case schema.True:
		return append(b, "true"...)
	case schema.Entity:
		return r.entity(p).appendEntityID(b, &c.Host)
	case schema.Container:
		in, _ := p.Container()
		return append(b, r.container(in)...)
	}
	return r.appendWord(b, p, c)
}

// device returns a device as one number, with the major number in the upper half.
func device(major, minor uint32) uint64 { return uint64(major)<<32 | uint64(minor) }

// AppendJSON appends the process to b as one JSON object; see [Event.AppendJSON].
func (p *Process) AppendJSON(b []byte, clock *Clock) []byte {
	b = strconv.AppendUint(append(b, `{"pid":`...), uint64(p.PID), 10)
	in, _ := p.Container()
	for i := range rows[1:] { // each further key begins with a comma
		if r := &rows[i+1]; !r.knownOf(p) || r.has != nil && !r.has(p, clock) { // Has
			continue
		} else if r.Shape == schema.Uint {
			b = strconv.AppendUint(append(b, r.json...), r.Number(p), 10)
		} else {
			b = r.appendJSON(b, p, clock, &in)
		}
	}
	if len(p.tags) > 0 {
		o := object{b: b, some: true}
		o.words("tags", p.Tags())
		b = o.b
	}
	b = p.Cached.appendJSON(b, `,"cached":[`)
	b = p.Truncated.appendJSON(b, `,"truncated":[`)
	return append(b, '}')
}

// appendJSON appends the key and the value.
func (r *Row) appendJSON(b []byte, p *Process, clock *Clock, in *Container) []byte {
	switch r.Shape {
	case schema.Container:
		if in.ID == "" || r.container(*in) == "" {
			return b
		}
		b, _ = appendJSONString(append(b, r.json...), r.container(*in))
		return b
	case schema.String, schema.Path:
		v := r.Text(p)
		b, valid := appendJSONString(append(b, r.json...), v)
		if !valid {
			b = appendBase64(append(b, r.b64...), []byte(v))
		}
		return b
	case schema.List:
		v := r.List(p)
		valid := true
		b = appendItems(append(b, r.json...), v, func(b, text []byte) []byte {
			b, ok := appendJSONString(b, string(text))
			valid = valid && ok
			return b
		})
		if !valid {
			b = appendItems(append(b, r.b64...), v, appendBase64)
		}
		return b
	}
	b = append(b, r.json...)
	switch r.Shape {
	case schema.True:
		return append(b, "true"...)
	case schema.Set:
		return append(Privileges(r.Number(p)).appendNames(append(b, '['), `","`, '"'), ']')
	case schema.Entity:
		return append(r.entity(p).appendEntityID(append(b, '"'), &clock.Host), '"')
	}
	return append(r.appendWord(append(b, '"'), p, clock), '"')
}

// appendWord appends a value that JSON puts in quotation marks and text does not.
func (r *Row) appendWord(b []byte, p *Process, clock *Clock) []byte {
	switch r.Shape {
	case schema.Hex:
		return strconv.AppendUint(append(b, "0x"...), r.Number(p), 16)
	case schema.Octal:
		return strconv.AppendUint(append(b, '0'), r.Number(p), 8)
	case schema.Device:
		n := r.Number(p)
		return strconv.AppendUint(append(strconv.AppendUint(b, n>>32, 10), ':'), n&(1<<32-1), 10)
	case schema.Signal:
		return append(b, SignalName(int(r.Number(p)))...)
	case schema.Enum:
		return append(b, r.Text(p)...)
	case schema.Date:
		return appendTime(b, r.date(p, clock))
	}
	return strconv.AppendUint(b, r.Number(p), 10)
}

// appendTime appends t in UTC with nine digits of nanoseconds. It formats RFC3339 and adds the
// digits, as package time has a fast path only for RFC3339 and RFC3339Nano.
func appendTime(b []byte, t time.Time) []byte {
	b = t.UTC().AppendFormat(b, time.RFC3339)
	b[len(b)-1] = '.' // was the Z
	nsec := uint32(t.Nanosecond())
	for unit := uint32(1e8); unit > 0; unit /= 10 {
		b = append(b, '0'+byte(nsec/unit%10))
	}
	return append(b, 'Z')
}

// appendItems appends an array of texts, each of which ends in a NUL.
func appendItems(b, texts []byte, item func(b, text []byte) []byte) []byte {
	b = append(b, '[')
	for text := range parts(texts) {
		if b[len(b)-1] != '[' {
			b = append(b, ',')
		}
		b = item(b, text)
	}
	return append(b, ']')
}

func appendBase64(b, v []byte) []byte {
	return append(base64.StdEncoding.AppendEncode(append(b, '"'), v), '"')
}

const hexDigits = "0123456789abcdef"

// plain marks the bytes that a JSON string need not escape.
var plain = func() (is [256]bool) {
	for c := 0x20; c < 0x7f; c++ {
		is[c] = c != '"' && c != '\\'
	}
	return is
}()

// AppendJSONString appends s as a JSON string, with U+FFFD for bytes that are not UTF-8, and
// reports whether all bytes are UTF-8.
func AppendJSONString(b []byte, s string) (to []byte, valid bool) { return appendJSONString(b, s) }

func appendJSONString(b []byte, s string) (to []byte, valid bool) {
	b, valid = append(b, '"'), true
	for i := 0; i < len(s); {
		start := i
		for i < len(s) && plain[s[i]] {
			i++
		}
		if b = append(b, s[start:i]...); i == len(s) {
			break
		}
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\n':
			b = append(b, '\\', 'n')
		case c == '\t':
			b = append(b, '\\', 't')
		case c < utf8.RuneSelf:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		default:
			r, size := utf8.DecodeRuneInString(s[i:])
			b = utf8.AppendRune(b, r) // RuneError for an invalid byte
			valid = valid && (r != utf8.RuneError || size > 1)
			i += size - 1
		}
		i++
	}
	return append(b, '"'), valid
}

// appendText appends the lines of the process.
func (p *Process) appendText(b []byte) []byte {
	d := dumper{b: b, p: p}
	in, _ := p.Container()
	shown := false
	for i := range rows {
		r := &rows[i]
		switch r.tag {
		case "-":
			continue
		case "":
		default:
			shown = r.lineIf == nil || r.lineIf(p)
			if r.Shape == schema.Container {
				shown = in.ID != ""
			}
			if shown {
				d.line(r.tag)
			}
		}
		if shown {
			d.row(r, &in)
		}
	}
	return append(d.b, '\n')
}

// row appends a value: "?" if it is unknown. It skips an absent value.
func (d *dumper) row(r *Row, in *Container) {
	known := r.knownOf(d.p)
	if known && (r.has != nil && !r.has(d.p, nil) || r.Shape == schema.Container && r.container(*in) == "") || !known && r.Shape == schema.True {
		return
	}
	d.b = append(append(d.b, d.sep), r.text...)
	if d.sep = ' '; !known {
		d.b = append(d.b, '?')
		return
	}
	switch r.Shape {
	case schema.Uint:
		d.b = strconv.AppendUint(d.b, r.Number(d.p), 10)
	case schema.True:
		d.b = append(d.b, '1')
	case schema.Container:
		d.b = appendEscaped(d.b, r.container(*in))
	case schema.String, schema.Path:
		d.b = appendEscaped(d.b, r.Text(d.p))
		d.cut(r.Fields)
	case schema.List:
		d.list(r)
	case schema.Set:
		d.b = Privileges(r.Number(d.p)).appendNames(d.b, ",", 0)
	default:
		d.b = r.appendWord(d.b, d.p, nil)
	}
}

// list appends texts, each of which ends in a NUL.
func (d *dumper) list(r *Row) {
	d.b = append(d.b, '[')
	sep := " "
	for text := range parts(r.List(d.p)) {
		d.b = appendEscaped(append(d.b, sep...), string(text))
		sep = ", "
	}
	d.cut(r.Fields)
	d.b = append(d.b, " ]"...)
}
