package otlp

import (
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/sdk/resource"
	"google.golang.org/protobuf/encoding/protowire"
)

// The numbers of fields, of opentelemetry/proto/{collector/logs,logs,resource,common}/v1.
const (
	requestResourceLogs = 1

	resourceLogsResource  = 1
	resourceLogsScopeLogs = 2
	resourceLogsSchemaURL = 3
	resourceAttributes    = 1

	scopeLogsScope   = 1
	scopeLogsRecords = 2
	scopeName        = 1

	recordTime         = 1
	recordSeverity     = 2
	recordSeverityText = 3
	recordBody         = 5
	recordAttributes   = 6
	recordObserved     = 11
	recordEventName    = 12

	keyValueKey   = 1
	keyValueValue = 2

	anyString   = 1
	anyBool     = 2
	anyInt      = 3
	anyArray    = 5
	anyBytes    = 7
	arrayValues = 1
)

// wire encodes a message that has attributes, and is used again for the next. The Go types of the
// protocol, which the SDK fills, take three objects for each attribute and several times as long.
type wire struct {
	b          []byte           // the message
	attributes protowire.Number // the field that they are
	value      []byte           // an AnyValue
	array      []byte           // an ArrayValue
}

func (w *wire) start(attributes protowire.Number) { w.b, w.attributes = w.b[:0], attributes }

func (w *wire) flag(key attribute.Key, v bool) {
	w.value = appendVarint(w.value[:0], anyBool, protowire.EncodeBool(v))
	w.add(key)
}

func (w *wire) number(key attribute.Key, v int64) {
	w.value = appendVarint(w.value[:0], anyInt, uint64(v))
	w.add(key)
}

// text adds a text, with U+FFFD for what is not UTF-8.
func (w *wire) text(key attribute.Key, v string) {
	w.value = appendBytes(w.value[:0], anyString, valid(v))
	w.add(key)
}

func (w *wire) bytes(key attribute.Key, v []byte) {
	w.value = appendBytes(w.value[:0], anyBytes, v)
	w.add(key)
}

// list adds a list of what items adds by textItem and numberItem.
func (w *wire) list(key attribute.Key, items func()) {
	w.array = w.array[:0]
	items()
	w.value = appendBytes(w.value[:0], anyArray, w.array)
	w.add(key)
}

func (w *wire) textItem(v string) {
	w.value = appendBytes(w.value[:0], anyString, valid(v))
	w.array = appendBytes(w.array, arrayValues, w.value)
}

func (w *wire) numberItem(v int64) {
	w.value = appendVarint(w.value[:0], anyInt, uint64(v))
	w.array = appendBytes(w.array, arrayValues, w.value)
}

// add adds an attribute with the value that is encoded in w.value.
func (w *wire) add(key attribute.Key) {
	const tags = 2 // a byte each
	b := protowire.AppendTag(w.b, w.attributes, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(tags+protowire.SizeBytes(len(key))+protowire.SizeBytes(len(w.value))))
	b = appendBytes(b, keyValueKey, key)
	w.b = appendBytes(b, keyValueValue, w.value)
}

// endRecord adds what a LogRecord has beside its attributes, and returns a copy of it, as a field
// of a ScopeLogs.
func (w *wire) endRecord(name string, severity log.Severity, at, observed time.Time, body string) []byte {
	w.b = appendTime(w.b, recordTime, at)
	w.b = appendTime(w.b, recordObserved, observed)
	w.b = appendVarint(w.b, recordSeverity, uint64(severity))
	w.b = appendBytes(w.b, recordSeverityText, severity.String())
	w.b = appendBytes(w.b, recordEventName, name)
	w.value = appendBytes(w.value[:0], anyString, body)
	w.b = appendBytes(w.b, recordBody, w.value)
	return appendBytes(make([]byte, 0, protowire.SizeTag(scopeLogsRecords)+protowire.SizeBytes(len(w.b))), scopeLogsRecords, w.b)
}

// envelope is what is around the records of a request.
type envelope struct {
	resource []byte // fields of a ResourceLogs
	scope    []byte // fields of a ScopeLogs
}

func newEnvelope(r *resource.Resource, scope string) (e envelope) {
	var w wire
	w.start(resourceAttributes)
	for _, kv := range r.Attributes() {
		w.text(kv.Key, kv.Value.String())
	}
	e.resource = appendBytes(nil, resourceLogsResource, w.b)
	e.resource = appendBytes(e.resource, resourceLogsSchemaURL, r.SchemaURL())
	e.scope = appendBytes(nil, scopeLogsScope, appendBytes(nil, scopeName, scope))
	return e
}

// request returns an ExportLogsServiceRequest with records.
func (e *envelope) request(records [][]byte) []byte {
	const tag = 1
	logs := len(e.scope)
	for _, r := range records {
		logs += len(r)
	}
	all := len(e.resource) + tag + protowire.SizeBytes(logs)
	b := make([]byte, 0, tag+protowire.SizeBytes(all))
	b = protowire.AppendTag(b, requestResourceLogs, protowire.BytesType)
	b = append(protowire.AppendVarint(b, uint64(all)), e.resource...)
	b = protowire.AppendTag(b, resourceLogsScopeLogs, protowire.BytesType)
	b = append(protowire.AppendVarint(b, uint64(logs)), e.scope...)
	for _, r := range records {
		b = append(b, r...)
	}
	return b
}

func appendVarint(b []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
}

// appendTime appends a time, or nothing, which is 0 and unknown, if it is before 1970.
func appendTime(b []byte, field protowire.Number, t time.Time) []byte {
	if ns := t.UnixNano(); ns > 0 {
		b = protowire.AppendFixed64(protowire.AppendTag(b, field, protowire.Fixed64Type), uint64(ns))
	}
	return b
}

func appendBytes[T ~string | ~[]byte](b []byte, field protowire.Number, v T) []byte {
	b = protowire.AppendTag(b, field, protowire.BytesType)
	return append(protowire.AppendVarint(b, uint64(len(v))), v...)
}

// valid returns a text as the protocol can have it.
func valid(s string) string { return strings.ToValidUTF8(s, "\ufffd") }
