package auditrecord

import (
	"bytes"
	"encoding/hex"
	"errors"

	"github.com/quark-linux/quark/internal/proctext"
)

// Type is the type of a record, from linux/audit.h.
type Type uint16

// Other types have the kernel's number.
const (
	Syscall      Type = 1300 // a system call at its end, and the caller
	Path         Type = 1302 // a path that the call got or resolved
	ConfigChange Type = 1305 // a change of audit itself
	Cwd          Type = 1307
	Execve       Type = 1309 // the arguments of a new image
	EndOfEvent   Type = 1320 // the last record of a system call
	ProcTitle    Type = 1327
	Abend        Type = 1701 // a signal that dumps core, if permitted, ends a process
)

// First and Last limit the types of records. The kernel's answers have lower types.
const (
	First Type = 1005 // AUDIT_USER, from a program; 1006 is a login
	Last  Type = 2999
)

// Record is one record. Body is the text after the stamp.
type Record struct {
	Type   Type
	Time   uint64 // in milliseconds since 1970, rounded down
	Serial uint32
	Body   []byte
}

var errFormat = errors.New("decode audit record: no stamp audit(SECONDS.MILLISECONDS:SERIAL)")

// Parse parses a record of a type as the kernel sends it. Body is a part of text.
func (r *Record) Parse(t Type, text []byte) error {
	text, ok := bytes.CutPrefix(bytes.TrimRight(text, "\x00\n"), []byte("audit("))
	if !ok {
		return errFormat
	}
	stamp, body, ok := proctext.Cut(text, ')')
	if !ok {
		return errFormat
	}
	whole, serial, ok := proctext.Cut(stamp, ':')
	if !ok {
		return errFormat
	}
	seconds, part, ok := proctext.Cut(whole, '.')
	s, ok1 := proctext.Uint64(seconds, 10)
	ms, ok2 := proctext.Uint64(part, 10)
	n, ok3 := proctext.Uint32(serial)
	const most = 1 << 40 // seconds that fit into 64 bits of nanoseconds
	if !ok || !ok1 || !ok2 || !ok3 || len(part) != 3 || s > most {
		return errFormat
	}
	*r = Record{Type: t, Time: s*1000 + ms, Serial: n, Body: bytes.TrimLeft(body, ": ")}
	return nil
}

// Members reads the members of a record's body one by one.
type Members struct{ rest []byte }

// Members returns the members of a record.
func (r *Record) Members() Members { return Members{r.Body} }

// Next returns the next member; ok is false after the last. It skips other text.
func (m *Members) Next() (name, value []byte, ok bool) {
	for len(m.rest) > 0 {
		i := bytes.IndexAny(m.rest, " =")
		if i < 0 {
			break
		}
		name, m.rest = m.rest[:i], m.rest[i:]
		if m.rest[0] == ' ' || len(name) == 0 {
			m.rest = m.rest[1:]
			continue
		}
		m.rest = m.rest[1:]
		end := 0
		if len(m.rest) > 0 && m.rest[0] == '"' {
			if end = bytes.IndexByte(m.rest[1:], '"') + 2; end < 2 {
				break
			}
		} else if end = bytes.IndexByte(m.rest, ' '); end < 0 {
			end = len(m.rest)
		}
		value, m.rest = m.rest[:end], m.rest[end:]
		return name, value, true
	}
	m.rest = nil
	return nil, nil, false
}

// AppendText appends a text to b. It returns false for values that are not a text, such as (null),
// which means that the kernel lacks it.
func AppendText(b, value []byte) ([]byte, bool) {
	if n := len(value); n >= 2 && value[0] == '"' && value[n-1] == '"' {
		return append(b, value[1:n-1]...), true
	}
	text, err := hex.AppendDecode(b, value)
	if err != nil || len(value) == 0 {
		return b, false
	}
	return text, true
}
