package auditrecord

import (
	"bytes"

	"github.com/quark-linux/quark/internal/proctext"
)

// Arguments collects the arguments of a new image from its Execve records, in their order. An
// argument is a member aN or, if it is long, aN_len and parts aN[0], aN[1] and so on, which can
// continue in the next record.
type Arguments struct {
	Text  []byte // the arguments, each followed by a NUL
	Limit int    // maximum length of Text, which keeps the start; 0 for none
	Cut   bool   // Text was longer

	known  bool   // there was a record
	bad    bool   // a part is missing or invalid
	count  uint32 // expected number
	number uint32 // of the next or current argument
	left   uint64 // remaining bytes of the argument, as in the records
}

// Reset clears a, and keeps its storage and its limit.
func (a *Arguments) Reset() { *a = Arguments{Text: a.Text[:0], Limit: a.Limit} }

// Add adds a record.
func (a *Arguments) Add(r *Record) {
	for m := r.Members(); ; {
		name, value, ok := m.Next()
		if !ok {
			return
		}
		a.bad = !a.add(name, value) || a.bad
	}
}

// add adds a member, and reports whether it is the expected one.
func (a *Arguments) add(name, value []byte) bool {
	if string(name) == "argc" {
		n, ok := proctext.Uint32(value)
		first := !a.known
		a.count, a.known = n, true
		return ok && first
	}
	digits, ok := bytes.CutPrefix(name, []byte{'a'})
	rest := bytes.TrimLeft(digits, "0123456789")
	n, isNumber := proctext.Uint32(digits[:len(digits)-len(rest)])
	if !ok || !isNumber {
		return true // not an argument
	}
	ok = n == a.number
	switch size := uint64(len(bytes.Trim(value, `"`))); {
	case string(rest) == "_len":
		total, isNumber := proctext.Uint64(value, 10)
		ok = ok && isNumber && a.left == 0
		a.left = total
		return ok
	case len(rest) == 0:
		ok = ok && a.left == 0
	default:
		ok = ok && size <= a.left
		a.left -= min(size, a.left)
	}
	text, whole := AppendText(a.Text, value)
	if a.left == 0 {
		text = append(text, 0)
		a.number++
	}
	if a.Limit > 0 && len(text) > a.Limit {
		text, a.Cut = text[:a.Limit], true
	}
	a.Text = text
	return ok && whole
}

// Some reports whether the record with the number of arguments has arrived.
func (a *Arguments) Some() bool { return a.known }

// Complete reports whether all arguments have arrived.
func (a *Arguments) Complete() bool {
	return a.known && !a.bad && a.left == 0 && a.number == a.count
}
