package score

import (
	"slices"
	"strings"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/truth"
)

// value is what a delivered event says of a field.
type value struct {
	field  engine.Field
	text   string
	cut    bool // text is a part
	kernel bool // the field comes from the kernel, else from /proc
}

func (j *judge) value(p *engine.Process, f engine.Field) value {
	return value{f, truth.ValueOf(p, f), p.Truncated.Has(f), j.w.Table.Fields[f].Origin == engine.OriginKernel}
}

// is reports whether a process of which want is true can be reported so.
func (v value) is(want string) bool {
	return !v.cut && v.text == want || v.cut && part(v.field, v.text, want)
}

// isOf reports whether v is the value of a state, or what the process saw itself, whose paths
// begin at its root.
func (v value) isOf(s, inside *truth.State) bool {
	seen := inside.Told.Has(v.field)
	if seen && v.is(inside.Value[v.field]) {
		return true
	}
	return s.Told.Has(v.field) && v.is(s.Value[v.field]) && (!seen || v.cut)
}

// isOfLook reports whether v is what a look at the process showed between e and the next
// event.
func (v value) isOfLook(e *truth.Event) bool {
	return slices.ContainsFunc(e.Drift, func(l truth.Look) bool { return v.isOf(&l.State, new(truth.State)) })
}

// isOfAbout reports whether v is of the event before e, or of a look after e.
func (v value) isOfAbout(e *truth.Event) bool {
	i := slices.Index(e.Life.Events, e)
	return v.isOfLook(e) || i > 0 && v.isOf(&e.Life.Events[i-1].State, &e.Life.Events[i-1].Inside)
}

// isOfAnotherTime reports whether the process had v before e, or whether its creators had
// before its birth what it inherits; where the field comes from /proc, v can also be of later.
func (v value) isOfAnotherTime(e *truth.Event) bool {
	had := func(e *truth.Event) bool { return v.isOf(&e.State, &e.Inside) || v.isOfLook(e) }
	i := slices.Index(e.Life.Events, e)
	if slices.ContainsFunc(e.Life.Events[:i], had) {
		return true
	}
	if !v.kernel && (v.isOfLook(e) || slices.ContainsFunc(e.Life.Events[i+1:], had)) {
		return true
	}
	if v.field != engine.FieldFilename && v.field != engine.FieldCmdline {
		return false
	}
	for l := e.Life; l.Creator != nil; l = l.Creator {
		if slices.ContainsFunc(l.Creator.Events, func(e *truth.Event) bool { return e.Earliest <= l.Events[0].Latest && had(e) }) {
			return true
		}
	}
	return false
}

// reportsAlways reports whether the backend reports a field with e in every life: eBPF all
// that its table says of FORK and EXEC, and of EXIT what belongs to the end itself. Namespaces
// are not there for an EXIT if the leader ended before other threads.
func (w *Witness) reportsAlways(e *truth.Event, f engine.Field) bool {
	if w.Backend != "ebpf" {
		return false
	}
	switch e.Kind {
	case engine.KindFork, engine.KindExec:
		return w.Table.Fields[f].Brings(e.Kind.Events())
	case engine.KindExit:
		if engine.FieldsNS.Has(f) {
			return !e.Life.OpenThreads && len(e.Life.Threads) == 0
		}
		return engine.FieldsIDs.Has(f) || f == engine.FieldComm
	}
	return false
}

// part reports whether got is what may be left of a command line or a path that is cut:
// the beginning of the one, the last directories of the other.
func part(f engine.Field, got, whole string) bool {
	if len(got) >= len(whole) {
		return false
	}
	if f == engine.FieldCmdline {
		return strings.HasPrefix(whole, got)
	}
	return got != "" && strings.HasSuffix(whole, "/"+got)
}

// reaches reports whether a cut text has the extent that is known in any case.
func reaches(got string, whole engine.Extent) bool {
	names := strings.Count(strings.Trim(got, "/"), "/") + 1
	return whole.Bytes > 0 && len(got) >= whole.Bytes || whole.Names > 0 && names >= whole.Names
}
