// Package schema has the one table of the kinds of event and of the fields of a process. It is
// data alone: gen makes Go code and lists of the manual from it, and packages loop over it.
//
// A new field needs a [Flag], a [Row] for each of its values, the member of package engine that
// Row.Go names, and the code of each backend that reports it.
package schema

//go:generate go run ./gen

// Kind is a kind of event.
type Kind struct {
	Name string // as events are printed: "ID_CHANGE"
	Go   string // the end of the names EventIDChange and KindIDChange
	Bit  int    // of the set of kinds, fixed for ever
	Raw  bool   // sources report it: it has a KindX
	Doc  string // as a comment
}

// Flag is a part of the state that is known, cached or truncated as a whole. Its number is its
// index in [Flags], which is fixed for ever.
type Flag struct {
	Name   string
	Go     string // the end of the name FieldX
	By     string // the Go names of the kinds that can change it, with blanks
	Unseen string // how it can change without an event; "" if it cannot
	Traits Traits
	Doc    string
	// Members are its numbers, as members of a Task, with blanks. Those of a Context are
	// members of Inherited, unless they begin with "Task."; those that begin with "Usage." are
	// of a RawEvent.
	Members string
}

// Traits say how the engine treats a field.
type Traits uint

// The traits.
const (
	PerThread Traits = 1 << iota // each thread has its own
	Context                      // processes share one copy until it changes
	Image                        // an exec replaces it
	Text                         // a text of variable length
	Fixed                        // it never changes
	IDs                          // a user or group id
	Namespace                    // a namespace that a process can change
	Usage                        // what a process has used, at its EXIT
	Derived                      // the engine derives it
)

// Shape is how a value is read and written.
type Shape uint8

// The shapes of values.
const (
	Uint      Shape = iota // a number
	Decimal                // a number that JSON has as a string, as it can exceed 2^53
	Hex                    // likewise, with 0x
	Octal                  // likewise, with 0
	Device                 // MAJOR:MINOR, a number with the major in its upper half
	Signal                 // the name of a signal, a number in filters
	True                   // printed only if it is true
	String                 // a text
	Path                   // a text with slashes
	List                   // texts, each with a NUL
	Enum                   // one of some words
	Set                    // a set of words
	Date                   // a date, which needs the clock
	Entity                 // a name of a process for ever, which needs the clock
	Container              // a text of the container of the process
)

// Unit is the unit of a number.
type Unit uint8

// The units.
const (
	None Unit = iota
	Nanosecond
	Byte
)

// Row is one value of a process.
type Row struct {
	Name string // lower_snake_case, in every form that has no other name by standard
	OTel string // the attribute of log records, "" if they have none
	ECS  string // the field of documents, "" if they have none, or one of another form
	// C is the member of struct quark_process, "" if it is none that a number fills. A new one
	// has its type before it, and goes to the end of the structure.
	C    string
	Flag string // the Go name of its flag, "" if it is always known
	// Go is an expression of the value: p is the process, x the file of its executable, c the
	// clock or the container.
	Go    string
	Shape Shape
	Unit  Unit
	Known string // when it is known, in place of the flag
	If    string // when it is there, if it is known
	// Line is the tag of the line of text that it begins, "" if it continues the line of
	// the row before, and "-" if text has none. LineIf is when the line is there.
	Line, LineIf string
	Doc          string
}

// String returns the name of the constant.
func (s Shape) String() string {
	return [...]string{"Uint", "Decimal", "Hex", "Octal", "Device", "Signal", "True", "String", "Path", "List", "Enum", "Set", "Date", "Entity", "Container"}[s]
}

// String returns the name of the constant.
func (u Unit) String() string { return [...]string{"None", "Nanosecond", "Byte"}[u] }
