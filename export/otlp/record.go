package otlp

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"path"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	sdk "go.opentelemetry.io/otel/sdk/log"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/export"
)

type keyValue = attribute.KeyValue

// The names of events.
const (
	nameProcess  = "quark.process"
	nameExisting = "quark.process.existing" // at the start
	nameLost     = "quark.events.lost"      // a GAP
	nameDropped  = "quark.events.dropped"   // by the exporter, for lack of room
)

// maxArgs is how many arguments a record has at most.
const maxArgs = 1000

// recorder makes records of events.
type recorder struct {
	q      *quark.Queue
	names  *quark.Names
	prefix string // of the ids of records, of this run
	number uint64
	attrs  []keyValue // used again for each record
	lists  int        // bytes of the lists and the binary ones among them
	events map[quark.Events]attribute.Value
	fields map[quark.Fields]string
}

func newRecorder(q *quark.Queue, names *quark.Names) *recorder {
	var run [8]byte
	rand.Read(run[:])
	return &recorder{q: q, names: names, prefix: hex.EncodeToString(run[:]) + "-",
		events: make(map[quark.Events]attribute.Value), fields: make(map[quark.Fields]string)}
}

// record returns the record of an event, whose attributes it leaves in attrs.
func (r *recorder) record(ev *quark.Event) (out log.Record) {
	r.attrs, r.lists = r.attrs[:0], 0
	r.uid()
	out.SetTimestamp(ev.Wall)
	out.SetObservedTimestamp(time.Now())
	out.SetSeverity(log.SeverityInfo)
	out.SetSeverityText("INFO")
	out.SetEventName(nameProcess)
	r.attrs = append(r.attrs, attribute.Int64("quark.monotonic_ns", int64(ev.Time)))
	out.SetBody(attribute.StringValue(export.Summary(ev)))
	switch {
	case ev.Events.Has(quark.EventGap):
		out.SetEventName(nameLost)
		out.SetSeverity(log.SeverityWarn)
		out.SetSeverityText("WARN")
		r.lost(&ev.Gap)
	case ev.Process != nil:
		if ev.Events == 0 {
			out.SetEventName(nameExisting)
		}
		r.event(ev)
		r.process(ev)
	}
	return out
}

// uid adds the record's id, which stays the same when it is sent again.
func (r *recorder) uid() {
	r.number++
	r.attrs = append(r.attrs, semconv.LogRecordUID(r.prefix+strconv.FormatUint(r.number, 10)))
}

func (r *recorder) lost(g *quark.Gap) {
	r.attrs = append(r.attrs, text("quark.lost.cause", g.Cause.String()), attribute.Int64("quark.lost.count", int64(g.Count)),
		attribute.Int64("quark.lost.from_monotonic_ns", int64(g.From)), attribute.Int64("quark.lost.to_monotonic_ns", int64(g.To)))
	if g.CPU != quark.AllCPUs {
		r.attrs = append(r.attrs, attribute.Int64("quark.lost.cpu", int64(g.CPU)))
	}
}

// dropped makes out the record that says that count events found no room. It is called from
// whatever goroutine is the exporter's, at the place of the events in the stream.
func (r *recorder) dropped(out *sdk.Record, count uint64, from, to time.Time) {
	out.SetEventName(nameDropped)
	out.SetTimestamp(from)
	out.SetObservedTimestamp(to)
	out.SetSeverity(log.SeverityWarn)
	out.SetSeverityText("WARN")
	out.SetBody(attribute.StringValue(fmt.Sprintf("%d events were dropped: too many waited for the target", count)))
	out.SetAttributes(text("quark.dropped.cause", "queue_full"), attribute.Int64("quark.dropped.count", int64(count)))
}

// event adds what is of the event, and not of its process.
func (r *recorder) event(ev *quark.Event) {
	r.attrs = append(r.attrs, keyValue{Key: "quark.events", Value: r.eventNames(ev.Events)})
	if n := len(ev.Parts); n > 1 {
		kinds, times := make([]string, n), make([]int64, n)
		for i := range ev.Parts {
			kinds[i], times[i] = ev.Parts[i].Kind.String(), int64(ev.Parts[i].Time)
		}
		r.attrs = append(r.attrs, attribute.StringSlice("quark.parts.event", kinds), attribute.Int64Slice("quark.parts.monotonic_ns", times))
	}
	if ev.CPU != quark.AllCPUs && ev.Events != 0 {
		r.attrs = append(r.attrs, attribute.Int64("quark.cpu", int64(ev.CPU)))
	}
	if ev.Thread {
		r.attrs = append(r.attrs, semconv.ThreadID(int(ev.TID)), attribute.Bool("quark.thread", true))
	}
	if ev.Events.Has(quark.EventIDChange) {
		r.attrs = append(r.attrs, text("quark.id_change", ev.IDChange.String()))
	}
	if ev.Events.Has(quark.EventPtrace) {
		r.attrs = append(r.attrs, attribute.Int64("quark.tracer.pid", int64(ev.Tracer.PID)))
	}
	if ev.Events.Has(quark.EventExecFailed) {
		f := &ev.Failed
		r.attrs = append(r.attrs, semconv.ErrorTypeKey.String(f.ErrnoName()))
		if f.PathKnown {
			r.text("quark.exec_failed.path", f.Path)
			r.attrs = append(r.attrs, attribute.Bool("quark.exec_failed.path_carried", f.PathCarried), attribute.Bool("quark.exec_failed.path_truncated", f.PathCut))
		}
	}
}

func (r *recorder) eventNames(set quark.Events) attribute.Value {
	v, ok := r.events[set]
	if !ok {
		v = attribute.StringSliceValue(set.Names(nil))
		r.events[set] = v
	}
	return v
}

// maxSets bounds how many values of sets of fields are kept.
const maxSets = 1000

// set adds the names of a set of fields with commas between them, if it has any. A list would take
// several times as long to send.
func (r *recorder) set(name string, set quark.Fields) {
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
	r.attrs = append(r.attrs, text(name, v))
}

func text(name, value string) keyValue { return attribute.String(name, value) }

// text adds a text of a process. One that is not UTF-8, which the protocol can't have, has a twin
// with its bytes.
func (r *recorder) text(name, value string) {
	whole := valid(value)
	r.attrs = append(r.attrs, text(name, whole))
	if whole != value {
		r.bytes(name, []byte(value))
	}
}

// bytes adds the true bytes of a text.
func (r *recorder) bytes(name string, value []byte) {
	r.attrs = append(r.attrs, attribute.ByteSlice("quark.bytes."+name, value))
	r.lists += len(value)
}

func (r *recorder) number64(name attribute.Key, value uint64) {
	r.attrs = append(r.attrs, name.Int64(int64(value)))
}

// base returns the name of the file at the end of a path.
func base(file string) string {
	if file == "" {
		return ""
	}
	return path.Base(file)
}
