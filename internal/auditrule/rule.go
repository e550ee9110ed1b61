package auditrule

import (
	"encoding/binary"
	"errors"
)

// From linux/audit.h: lists, actions, fields and the operator of a rule.
const (
	ListTask    = 1 // checked when a task is created
	ListExit    = 4 // checked at the end of a system call
	ListExclude = 5 // types of records to exclude

	Never  = 0
	Always = 2

	FieldArch    = 11
	FieldSuccess = 104
	FieldKey     = 210

	opEqual = 0x40000000
	prepend = 0x10
)

const (
	maxFields = 64
	maxWords  = 64 // each for 32 system calls

	offsetCalls  = 12
	offsetFields = offsetCalls + 4*maxWords
	offsetValues = offsetFields + 4*maxFields
	offsetOps    = offsetValues + 4*maxFields
	offsetLength = offsetOps + 4*maxFields
	offsetText   = offsetLength + 4
)

// Field is a condition of a rule: a field of an event equals a value or, for some fields, a text. A
// parsed rule may have another operator.
type Field struct {
	Field, Value uint32
	Text         string
}

// Rule is a rule. Calls is the set of its system calls.
type Rule struct {
	List, Action uint32
	Calls        [maxWords]uint32
	Fields       []Field
}

// Select adds a system call.
func (r *Rule) Select(number uint32) { r.Calls[number/32] |= 1 << (number % 32) }

// Selects reports whether the rule includes a system call.
func (r *Rule) Selects(number uint32) bool {
	return number/32 < maxWords && r.Calls[number/32]&(1<<(number%32)) != 0
}

// Key returns the text of the rule's key, "" if it has none.
func (r *Rule) Key() string {
	for _, f := range r.Fields {
		if f.Field == FieldKey {
			return f.Text
		}
	}
	return ""
}

// Bytes returns the rule as a struct audit_rule_data.
func (r *Rule) Bytes() []byte {
	b := make([]byte, offsetText)
	put := func(at int, v uint32) { binary.NativeEndian.PutUint32(b[at:], v) }
	put(0, r.List)
	put(4, r.Action)
	put(8, uint32(len(r.Fields)))
	for i, w := range r.Calls {
		put(offsetCalls+4*i, w)
	}
	for i, f := range r.Fields {
		if hasText(f.Field) {
			f.Value = uint32(len(f.Text))
			b = append(b, f.Text...)
		}
		put(offsetFields+4*i, f.Field)
		put(offsetValues+4*i, f.Value)
		put(offsetOps+4*i, opEqual)
	}
	put(offsetLength, uint32(len(b)-offsetText))
	return b
}

var errRule = errors.New("decode audit rule: invalid message")

// Parse parses a struct audit_rule_data.
func Parse(b []byte) (r Rule, err error) {
	if len(b) < offsetText {
		return r, errRule
	}
	word := func(at int) uint32 { return binary.NativeEndian.Uint32(b[at:]) }
	n, text := word(8), b[offsetText:]
	if n > maxFields {
		return r, errRule
	}
	r.List, r.Action = word(0)&^prepend, word(4)
	for i := range r.Calls {
		r.Calls[i] = word(offsetCalls + 4*i)
	}
	for i := range int(n) {
		f := Field{Field: word(offsetFields + 4*i), Value: word(offsetValues + 4*i)}
		if hasText(f.Field) {
			if uint64(f.Value) > uint64(len(text)) {
				return Rule{}, errRule
			}
			f.Text, text = string(text[:f.Value]), text[f.Value:]
		}
		r.Fields = append(r.Fields, f)
	}
	return r, nil
}

// hasText reports whether the value of a field is the length of a text: labels, paths, keys.
func hasText(field uint32) bool {
	return field >= 13 && field <= 17 || field >= 19 && field <= 23 || field == 105 || field == 107 || field == 112 || field == FieldKey
}
