// Package schema has the table of the kinds of event and the table of the fields of a process. It
// has only data: gen generates Go code and lists of the manual from it, and packages loop over it.
//
// A new field needs a [Flag], a [Row] for each of its values, the member of package engine that
// Row.Go names, and the code of each backend that reports it.
package schema

//go:generate go run ./gen

// Kind is a kind of event.
type Kind struct {
	Name string // as printed: "ID_CHANGE"
	Go   string // suffix of the names EventIDChange and KindIDChange
	Bit  int    // in the set of kinds, fixed for ever
	Raw  bool   // sources report it: it has a KindX
	Doc  string // the comment of the constant
}

// Flag is a field, a part of the state that is known, cached or truncated as a whole. Its number is
// its index in [Flags], which is fixed for ever.
type Flag struct {
	Name   string
	Go     string // suffix of the name FieldX
	By     string // the Go names of the kinds that can change it, separated by blanks
	Unseen string // how the field can change without an event; "" if it cannot
	Traits Traits
	Doc    string
	// Members are the Go names of its numbers, separated by blanks. They are members of a Task;
	// for a Context members of Inherited, unless they begin with "Task."; if they begin with
	// "Usage.", members of a RawEvent.
	Members string
}

// Traits are properties of a field that the engine depends on.
type Traits uint

// The traits.
const (
	PerThread Traits = 1 << iota // each thread has its own value
	Context                      // processes share one copy until it changes
	Image                        // an exec replaces it
	Text                         // a text of variable length
	Fixed                        // it never changes
	IDs                          // a user or group id
	Namespace                    // a namespace that a process can change
	Usage                        // resources used by the process, at its EXIT
	Derived                      // the engine derives it
)

// Shape is the type and text form of a value.
type Shape uint8

// The shapes of values.
const (
	Uint      Shape = iota // a number
	Decimal                // a number that JSON has as a string, as it can exceed 2^53
	Hex                    // likewise, with 0x
	Octal                  // likewise, with 0
	Device                 // MAJOR:MINOR, a number with the major in its upper half
	Signal                 // the name of a signal, a number in filters
	True                   // a bool, printed only if true
	String                 // text
	Path                   // text with slashes
	List                   // texts, each followed by a NUL
	Enum                   // one of some words
	Set                    // a set of words
	Date                   // a date, which needs the clock
	Entity                 // the entity id of a process, which needs the clock
	Container              // text from the container of the process
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
	Name string // lower_snake_case, for all forms without a standard name of their own
	OTel string // the attribute in log records of OpenTelemetry, "" for none
	ECS  string // the field in ECS documents, "" for none, or if its form differs
	// C is the member of struct quark_process, "" if the structure has no number for the value.
	// A new member goes to the end of the structure, and is written with its type.
	C    string
	Flag string // the Go name of its flag, "" if it is always known
	// Go is an expression of the value: p is the process, x the file of its executable, c the
	// clock or the container.
	Go    string
	Shape Shape
	Unit  Unit
	Known string // expression for being known, in place of the flag
	If    string // expression for being present, if known
	// Line is the tag of the line of text that the value begins, "" if it continues the line of
	// the previous row, and "-" if text lacks the value. LineIf is the expression for the
	// presence of the line.
	Line, LineIf string
	Doc          string
}

// String returns the name of the constant.
func (s Shape) String() string {
	return [...]string{"Uint", "Decimal", "Hex", "Octal", "Device", "Signal", "True", "String", "Path", "List", "Enum", "Set", "Date", "Entity", "Container"}[s]
}

// String returns the name of the constant.
func (u Unit) String() string { return [...]string{"None", "Nanosecond", "Byte"}[u] }
