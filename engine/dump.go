package engine

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Dump writes the event as text in the format of elastic/quark's manual: a line "->PID (EVENTS)",
// then a line "  TAG<TAB>key=value ..." for each group of attributes. An unknown value is "?", a
// truncated value ends in "...". The line CACH names the cached fields. Unprintable bytes are
// escaped as in Go strings.
func (e *Event) Dump(w io.Writer) error {
	_, err := w.Write(e.AppendDump(nil))
	return err
}

// AppendDump appends the text of Dump to b.
func (e *Event) AppendDump(b []byte) []byte { return e.appendDump(b, ofDump) }

// appendDump is like AppendDump, but CACH names only cached fields in of.
func (e *Event) appendDump(b []byte, of Fields) []byte {
	pid := uint32(0)
	if e.Process != nil {
		pid = e.Process.PID
	}
	if e.Unsure {
		b = append(b, '~')
	}
	b = fmt.Appendf(b, "->%d", pid)
	if e.Events != 0 {
		b = fmt.Appendf(b, " (%s)", e.Events)
	}
	b = append(b, '\n')
	if e.CPU != AllCPUs {
		b = fmt.Appendf(b, "  CPU\tcpu=%d\n", e.CPU)
	}
	if e.Thread {
		b = fmt.Appendf(b, "  THRD\ttid=%d\n", e.TID)
	}
	if e.Events.Has(EventIDChange) {
		b = fmt.Appendf(b, "  IDCH\tid_change=%s\n", e.IDChange)
	}
	if e.Events.Has(EventNSChange) {
		b = e.NSChange.appendDump(b)
	}
	if e.Events.Has(EventPtrace) {
		b = fmt.Appendf(b, "  PTRA\ttracer_pid=%d\n", e.Tracer.PID)
	}
	if by := e.CgroupChangeBy; e.Events.Has(EventCgroupChange) {
		b = fmt.Appendf(b, "  CGCH\tcgroup_change_by_pid=%d cgroup_change_by_start=%d\n", by.PID, by.Start)
	}
	if e.Events.Has(EventReparent) {
		b = fmt.Appendf(b, "  REPA\told_ppid=%d\n", e.OldPPID)
	}
	if e.Events.Has(EventExecFailed) {
		b = e.Failed.appendDump(b)
	}
	b = appendWords(b, "  RULE\trules=", e.Rules)
	if len(e.Parts) > 1 {
		b = append(b, "  PART\t"...)
		for i, p := range e.Parts {
			if i > 0 {
				b = append(b, ' ')
			}
			b = strconv.AppendUint(append(append(b, p.Kind.String()...), '='), p.Time, 10)
		}
		b = append(b, '\n')
	}
	if e.Events.Has(EventGap) {
		return appendGap(b, &e.Gap)
	}
	if e.Process != nil {
		b = e.Process.appendDump(b, of)
		b = appendWords(b, "  TAGS\ttags=", e.Process.Tags())
	}
	return b
}

// appendWords appends a line of words with commas, or nothing if there are no words.
func appendWords(b []byte, tag string, words []string) []byte {
	if len(words) == 0 {
		return b
	}
	return append(append(append(b, tag...), strings.Join(words, ",")...), '\n')
}

func appendGap(b []byte, g *Gap) []byte {
	b = fmt.Appendf(b, "  LOST\tgap_cause=%s gap_count=%d gap_from=%d gap_to=%d gap_cpu=", g.Cause, g.Count, g.From, g.To)
	if g.CPU == AllCPUs {
		return append(b, "all\n"...)
	}
	return append(strconv.AppendUint(b, uint64(g.CPU), 10), '\n')
}

// ofDump are the fields of a dump that has no leaders.
const ofDump = AllFields | 1<<FieldPrivileges

// AppendDump appends the lines of the process, without a line of an event.
func (p *Process) AppendDump(b []byte) []byte { return p.appendDump(b, ofDump) }

func (p *Process) appendDump(b []byte, of Fields) []byte {
	b = p.appendText(b)
	if cached := p.Cached & of; cached != 0 {
		b = append(append(append(b, "  CACH\tcached="...), cached.String()...), '\n')
	}
	return b
}

// dumper appends key=value pairs, with "?" for values that the process lacks.
type dumper struct {
	b   []byte
	p   *Process
	sep byte // before the next pair: a tab after a tag, else a blank
}

func (d *dumper) line(tag string) *dumper {
	if n := len(d.b); n > 0 && d.b[n-1] != '\n' {
		d.b = append(d.b, '\n')
	}
	d.b = append(append(d.b, "  "...), tag...)
	d.sep = '\t'
	return d
}

// key begins a pair, and returns known: a caller with a known value appends the value.
func (d *dumper) key(name string, known bool) bool {
	d.b = append(append(append(d.b, d.sep), name...), '=')
	d.sep = ' '
	if !known {
		d.b = append(d.b, '?')
	}
	return known
}

func (d *dumper) cut(f Fields) {
	if d.p.Truncated&f != 0 {
		d.b = append(d.b, "..."...)
	}
}

// appendEscaped quotes as Go does, without the quotation marks.
func appendEscaped(b []byte, s string) []byte {
	for i := range len(s) {
		if !plain[s[i]] {
			n := len(b)
			b = strconv.AppendQuote(b, s)
			return append(b[:n], b[n+1:len(b)-1]...)
		}
	}
	return append(b, s...)
}
