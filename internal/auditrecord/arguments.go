package auditrecord

import (
	"bytes"

	"github.com/quark-linux/quark/internal/proctext"
)

// Arguments gathers the arguments of a new image from its records of the type Execve, in their
// order. An argument is a member aN, or, if it is long, aN_len and parts aN[0], aN[1] and so on,
// which can go on in the next record.
type Arguments struct {
	Text  []byte // the arguments, each with a NUL behind it
	Limit int    // of the length of Text, which keeps the beginning; 0 for none
	Cut   bool   // Text was longer

	known  bool   // there was a record
	bad    bool   // a part is missing, or makes no sense
	count  uint32 // that there are to be
	number uint32 // of the argument that is next, or in its course
	parts  uint32 // of it that came
	length uint64 // of it that is still to come, in bytes as they are in the records
}

// Reset makes a empty, and keeps its storage and its limit.
func (a *Arguments) Reset() { *a = Arguments{Text: a.Text[:0], Limit: a.Limit} }

// Add adds a record.
func (a *Arguments) Add(r *Record) {
	for m := r.Members(); ; {
		name, value, ok := m.Next()
		if !ok {
			return
		}
		a.add(name, value)
	}
}

func (a *Arguments) add(name, value []byte) {
	if string(name) == "argc" {
		n, ok := proctext.Uint32(value)
		a.bad = a.bad || !ok || a.known
		a.count, a.known = n, true
		return
	}
	name, ok := bytes.CutPrefix(name, []byte{'a'})
	digits, length := bytes.CutSuffix(name, []byte("_len"))
	index, rest, part := proctext.Cut(digits, '[')
	n, isNumber := proctext.Uint32(index)
	if !ok || !isNumber {
		return
	}
	if n == a.number+1 && a.parts > 0 { // the one before has ended
		a.end()
	}
	switch {
	case n != a.number:
		a.bad = true
	case length:
		total, ok := proctext.Uint64(value, 10)
		a.bad = a.bad || !ok || a.length != 0 || a.parts > 0
		a.length = total
	case part:
		i, ok := proctext.Uint32(bytes.TrimSuffix(rest, []byte{']'}))
		size := uint64(len(value))
		if size >= 2 && value[0] == '"' {
			size -= 2
		}
		a.bad = a.bad || !ok || i != a.parts || size > a.length
		a.length -= min(size, a.length)
		a.parts++
		a.append(value)
	default:
		a.bad = a.bad || a.length != 0 || a.parts > 0
		a.append(value)
		a.end()
	}
}

func (a *Arguments) append(value []byte) {
	text, ok := AppendText(a.Text, value)
	a.bad = a.bad || !ok
	a.keep(text)
}

// end ends an argument.
func (a *Arguments) end() {
	a.bad = a.bad || a.length != 0
	a.keep(append(a.Text, 0))
	a.number++
	a.parts, a.length = 0, 0
}

func (a *Arguments) keep(text []byte) {
	if a.Limit > 0 && len(text) > a.Limit {
		text, a.Cut = text[:a.Limit], true
	}
	a.Text = text
}

// Some reports whether a record has come that says how many there are.
func (a *Arguments) Some() bool { return a.known }

// Complete reports whether all arguments have come. Nothing is to be added after it.
func (a *Arguments) Complete() bool {
	if a.parts > 0 {
		a.end()
	}
	return a.known && !a.bad && a.number == a.count
}
