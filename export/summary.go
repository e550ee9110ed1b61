package export

import (
	"strconv"
	"strings"

	"github.com/quark-linux/quark"
)

// Summary describes an event in one line of UTF-8, such as "FORK+EXEC ls[4711]". An event without a
// kind is a process that existed at the start.
func Summary(ev *quark.Event) string {
	switch {
	case ev.Events.Has(quark.EventGap):
		return "events were lost: " + ev.Gap.Cause.String()
	case ev.Process == nil:
		return ev.Events.String()
	}
	what, who := "EXISTING", "?"
	if ev.Events != 0 {
		what = ev.Events.String()
	}
	if p := ev.Process; p.Known.Has(quark.FieldComm) {
		who = strings.Map(printable, strings.ToValidUTF8(p.Comm, "\ufffd"))
	}
	return what + " " + who + "[" + strconv.FormatUint(uint64(ev.Process.PID), 10) + "]"
}

// printable replaces a character that moves a terminal's cursor or ends a line.
func printable(r rune) rune {
	if strconv.IsPrint(r) {
		return r
	}
	return '\ufffd'
}
