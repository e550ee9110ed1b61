package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"reflect"
)

// MaxLine limits a record's line, including the newline. A longer line is damaged.
const MaxLine = 1 << 20

// A line ends with its checksum, the last member of the object: the CRC-32 (IEEE) of all bytes
// before the comma, as eight hex digits.
const (
	sumMember = `,"crc":"`
	sumTail   = len(sumMember) + 8 + len(`"}`)
)

// types maps the value of a record's first member, "type", to the record's type.
var types = map[string]reflect.Type{
	"hello":  reflect.TypeFor[Hello](),
	"plan":   reflect.TypeFor[Plan](),
	"start":  reflect.TypeFor[Start](),
	"result": reflect.TypeFor[Result](),
	"blob":   reflect.TypeFor[Blob](),
	"output": reflect.TypeFor[Output](),
	"end":    reflect.TypeFor[End](),
}

var names = func() map[reflect.Type]string {
	m := make(map[reflect.Type]string)
	for name, t := range types {
		m[t] = name
	}
	return m
}()

// Encode returns the line of a record, which is one of the types of this package.
func Encode(rec any) ([]byte, error) {
	name, ok := names[reflect.TypeOf(rec)]
	if !ok {
		return nil, fmt.Errorf("encode record: %T is not a record type", rec)
	}
	members, err := json.Marshal(rec)
	if err != nil {
		return nil, fmt.Errorf("encode record: %w", err)
	}
	// The members without their braces follow.
	b := fmt.Appendf(nil, `{"type":"%s",%s`, name, members[1:len(members)-1])
	b = fmt.Appendf(b, "%s%08x\"}\n", sumMember, crc32.ChecksumIEEE(b))
	if len(b) > MaxLine {
		return nil, fmt.Errorf("encode record: the line would have %d bytes, want at most %d", len(b), MaxLine)
	}
	return b, nil
}

// ErrDamaged means that a line is not a record, or has changed since it was written.
var ErrDamaged = errors.New("not a record, or a damaged record")

// Decode returns the record of a line, with or without its newline, as a value of one of the types
// of this package. The error wraps ErrDamaged.
func Decode(line []byte) (any, error) {
	line = bytes.TrimSuffix(line, []byte("\n"))
	n := len(line) - sumTail
	if n < 1 || line[0] != '{' || !bytes.HasPrefix(line[n:], []byte(sumMember)) || !bytes.HasSuffix(line, []byte(`"}`)) {
		return nil, fmt.Errorf("%w: %s", ErrDamaged, excerpt(line))
	}
	if sum := fmt.Sprintf("%08x", crc32.ChecksumIEEE(line[:n])); sum != string(line[n+len(sumMember):len(line)-2]) {
		return nil, fmt.Errorf("%w: the checksum differs: %s", ErrDamaged, excerpt(line))
	}
	var head struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	t, ok := types[head.Type]
	if !ok {
		return nil, fmt.Errorf("%w: unknown type %q", ErrDamaged, head.Type)
	}
	rec := reflect.New(t)
	if err := json.Unmarshal(line, rec.Interface()); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return rec.Elem().Interface(), nil
}

// excerpt returns the beginning of a line, quoted.
func excerpt(line []byte) string {
	if len(line) > 60 {
		return fmt.Sprintf("%q... (%d bytes)", line[:60], len(line))
	}
	return fmt.Sprintf("%q", line)
}

// Splitter splits the bytes from a port into records. The zero value is ready.
type Splitter struct{ rest []byte }

// Feed adds bytes, and calls f for each complete line with its record or an error that wraps
// ErrDamaged.
func (s *Splitter) Feed(b []byte, f func(rec any, err error)) {
	for len(b) > 0 {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			s.rest = append(s.rest, b...)
			if len(s.rest) > MaxLine {
				s.Flush(f)
			}
			return
		}
		s.rest = append(s.rest, b[:i]...)
		b = b[i+1:]
		if len(s.rest) > 0 {
			f(Decode(s.rest))
		}
		s.rest = s.rest[:0]
	}
}

// Flush ends the input: a last line without a newline is damaged.
func (s *Splitter) Flush(f func(rec any, err error)) {
	if len(s.rest) > 0 {
		f(nil, fmt.Errorf("%w: the line has no newline: %s", ErrDamaged, excerpt(s.rest)))
		s.rest = s.rest[:0]
	}
}
