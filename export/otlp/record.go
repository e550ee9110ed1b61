package otlp

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/export"
)

// The names of events.
const (
	nameProcess  = "quark.process"
	nameExisting = "quark.process.existing" // a process at the start
	nameLost     = "quark.events.lost"      // a GAP
	nameDropped  = "quark.events.dropped"   // by the exporter, because the queue was full
)

// maxArgs is the largest number of arguments in a record.
const maxArgs = 1000

// recorder makes records of events.
type recorder struct {
	q          *quark.Queue
	names      *quark.Names
	prefix     string // prefix of record ids, unique for this run
	count      uint64
	attributes []attribute.KeyValue // attributes of the current record
	made       []byte               // a text that is being made
	fields     map[quark.Fields]string
}

func newRecorder(q *quark.Queue, names *quark.Names) *recorder {
	var run [8]byte
	rand.Read(run[:])
	return &recorder{q: q, names: names, prefix: hex.EncodeToString(run[:]) + "-", fields: make(map[quark.Fields]string)}
}

// record returns the record of an event.
func (r *recorder) record(ev *quark.Event) log.Record {
	name, s := nameProcess, log.SeverityInfo
	r.attributes = r.attributes[:0]
	r.uid()
	r.number("quark.time_monotonic", int64(ev.Time))
	switch {
	case ev.Events.Has(quark.EventGap):
		name, s = nameLost, log.SeverityWarn
		r.lost(&ev.Gap)
	case ev.Process != nil:
		if ev.Events == 0 {
			name = nameExisting
		}
		r.event(ev)
		r.addProcess(ev)
	}
	return newRecord(name, s, ev.Wall, time.Now(), export.Summary(ev), r.attributes)
}

func newRecord(name string, severity log.Severity, at, observed time.Time, body string, attributes []attribute.KeyValue) (out log.Record) {
	out.SetEventName(name)
	out.SetSeverity(severity)
	out.SetSeverityText(severity.String())
	out.SetTimestamp(at)
	out.SetObservedTimestamp(observed)
	out.SetBody(attribute.StringValue(body))
	out.AddAttributes(attributes...)
	return out
}

// uid adds the record's id, which a resent record keeps.
func (r *recorder) uid() {
	r.count++
	r.made = strconv.AppendUint(append(r.made[:0], r.prefix...), r.count, 10)
	r.text(semconv.LogRecordUIDKey, string(r.made))
}

func (r *recorder) lost(g *quark.Gap) {
	r.text("quark.gap_cause", g.Cause.String())
	r.number("quark.gap_count", int64(g.Count))
	r.number("quark.gap_from", int64(g.From))
	r.number("quark.gap_to", int64(g.To))
	if g.CPU != quark.AllCPUs {
		r.number("quark.gap_cpu", int64(g.CPU))
	}
}

// dropped returns the record for count events that were dropped because the queue was full.
func dropped(count uint64, from, to time.Time) log.Record {
	return newRecord(nameDropped, log.SeverityWarn, from, to, fmt.Sprintf("%d events were dropped: too many waited for the target", count),
		[]attribute.KeyValue{attribute.String("quark.dropped.cause", causeQueueFull), attribute.Int64("quark.dropped.count", int64(count))})
}

// event adds the fields of the event itself, without the process.
func (r *recorder) event(ev *quark.Event) {
	r.list("quark.events", ev.Events.Names(nil))
	if len(ev.Rules) > 0 {
		r.list("quark.rules", ev.Rules)
	}
	if ev.Unsure {
		r.flag("quark.unsure", true)
	}
	if len(ev.Parts) > 1 {
		names, times := make([]string, len(ev.Parts)), make([]int64, len(ev.Parts))
		for i := range ev.Parts {
			names[i], times[i] = ev.Parts[i].Kind.String(), int64(ev.Parts[i].Time)
		}
		r.list("quark.parts.event", names)
		r.add(attribute.Int64Slice("quark.parts.time_monotonic", times))
	}
	if ev.CPU != quark.AllCPUs && ev.Events != 0 {
		r.number("quark.cpu", int64(ev.CPU))
	}
	if ev.Thread {
		r.number(semconv.ThreadIDKey, int64(ev.TID))
		r.flag("quark.thread", true)
	}
	if ev.Events.Has(quark.EventIDChange) {
		r.text("quark.id_change", ev.IDChange.String())
	}
	if ev.Events.Has(quark.EventNSChange) {
		r.text("quark.ns_change", ev.NSChange.Changed.String())
		for name, n := range ev.NSChange.Numbers() {
			r.number(attribute.Key("quark."+name), int64(n))
		}
	}
	if ev.Events.Has(quark.EventPtrace) {
		r.number("quark.tracer_pid", int64(ev.Tracer.PID))
	}
	if ev.Events.Has(quark.EventReparent) {
		r.number("quark.old_ppid", int64(ev.OldPPID))
	}
	if by := ev.CgroupChangeBy; ev.Events.Has(quark.EventCgroupChange) {
		r.number("quark.cgroup_change_by_pid", int64(by.PID))
		if by.Start != 0 {
			r.number("quark.cgroup_change_by_start", int64(by.Start))
		}
	}
	if ev.Events.Has(quark.EventExecFailed) {
		f := &ev.Failed
		r.text(semconv.ErrorTypeKey, f.ErrnoName())
		if f.PathKnown {
			r.rawText("quark.exec_failed_path", f.Path)
			r.flag("quark.exec_failed_path_cached", f.PathCached)
			r.flag("quark.exec_failed_path_truncated", f.PathTruncated)
		}
	}
}

// maxSets limits the number of kept strings for sets of fields.
const maxSets = 1000

// set adds the comma-separated names of a set of fields, unless the set is empty. Sending a list
// would take several times as long.
func (r *recorder) set(key attribute.Key, set quark.Fields) {
	if set == 0 {
		return
	}
	v, ok := r.fields[set]
	if !ok {
		v = set.String()
		if len(r.fields) >= maxSets {
			clear(r.fields)
		}
		r.fields[set] = v
	}
	r.text(key, v)
}

// rawText adds a string of a process. The protocol requires UTF-8, so for another string it also
// adds an attribute with the bytes.
func (r *recorder) rawText(key attribute.Key, value string) {
	r.text(key, value)
	if !utf8.ValidString(value) {
		r.bytes("quark.bytes."+key, []byte(value))
	}
}

func (r *recorder) add(a attribute.KeyValue) { r.attributes = append(r.attributes, a) }

func (r *recorder) flag(key attribute.Key, v bool) { r.add(key.Bool(v)) }

func (r *recorder) number(key attribute.Key, v int64) { r.add(key.Int64(v)) }

// text adds a string, with U+FFFD for invalid UTF-8.
func (r *recorder) text(key attribute.Key, v string) { r.add(key.String(valid(v))) }

func (r *recorder) list(key attribute.Key, v []string) { r.add(key.StringSlice(v)) }

func (r *recorder) bytes(key attribute.Key, v []byte) { r.add(attribute.ByteSlice(string(key), v)) }

// valid returns s as valid UTF-8, which the protocol requires.
func valid(s string) string { return strings.ToValidUTF8(s, "\ufffd") }

// base returns the name of the file at the end of a path.
func base(file string) string {
	if file == "" {
		return ""
	}
	return path.Base(file)
}
