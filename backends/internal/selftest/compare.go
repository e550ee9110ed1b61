package selftest

import (
	"fmt"
	"strconv"

	"github.com/quark-linux/quark/engine"
)

// compare returns the differences between an event and its true values. Fields that the table
// promises for this kind of event must be known and not truncated.
func compare(read, truth *engine.RawEvent, table *engine.CapabilityTable) (wrong []string) {
	differ := func(what, read, right string) {
		wrong = append(wrong, fmt.Sprintf("%s at %v: got %s, want %s", what, truth.Kind, clip(read), clip(right)))
	}
	number := func(what string, read, right uint32) {
		if read != right {
			differ(what, strconv.FormatUint(uint64(read), 10), strconv.FormatUint(uint64(right), 10))
		}
	}
	number("pid", read.PID, truth.PID)
	number("tid", read.TID, truth.TID)
	if read.Creator != 0 {
		number("creator", read.Creator, truth.Creator)
	}
	for f := range engine.Field(engine.NumFields) {
		if !truth.Task.Known.Has(f) {
			continue
		}
		right := text(truth, f)
		switch {
		case !read.Task.Known.Has(f):
			if table.Fields[f].Brings(truth.Kind.Events()) {
				differ(f.String(), "unknown", right)
			}
		case read.Task.Truncated.Has(f):
			differ(f.String(), text(read, f)+", cut", right)
		case text(read, f) != right:
			differ(f.String(), text(read, f), right)
		}
	}
	return wrong
}

// text returns the value of a field as text.
func text(ev *engine.RawEvent, f engine.Field) string {
	if number, ok := ev.Task.NumberText(f); ok {
		return number
	}
	return strconv.QuoteToASCII(string(ev.Bytes(f)))
}

// clip shortens a value, as a value that was read at a wrong address can be very long.
func clip(text string) string {
	const most = 120
	if len(text) > most {
		return text[:most] + "..."
	}
	return text
}
