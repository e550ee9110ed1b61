package otlp

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/sdk/resource"
	collector "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	resources "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
)

// What is encoded is what the Go types of the protocol are encoded as, but for the order of fields:
// they decode it to what they would have been, and need as many bytes.
func FuzzWire(f *testing.F) {
	for _, text := range []string{"", "x", strings.Repeat("long", 32), strings.Repeat("longer", 300), "no \xff text"} {
		for _, n := range []int64{0, 1, -1, 127, 128, math.MaxInt64, math.MinInt64} {
			f.Add(text, n, uint8(n))
		}
	}
	f.Fuzz(func(t *testing.T, text string, n int64, items uint8) {
		var w wire
		var records [][]byte
		for range 3 {
			w.start(recordAttributes)
			w.text("text", text)
			w.number("number", n)
			w.flag("flag", n > 0)
			w.bytes("bytes", []byte(text))
			w.list("texts", func() {
				for range items {
					w.textItem(text)
				}
			})
			w.list("numbers", func() {
				for i := range items {
					w.numberItem(n + int64(i))
				}
			})
			records = append(records, w.endRecord("name", log.SeverityWarn, time.Unix(0, n), time.Unix(1, 0), "body"))
		}
		e := newEnvelope(resource.NewWithAttributes("schema", attribute.String("of", text)), "scope")
		encoded := e.request(records)
		var got collector.ExportLogsServiceRequest
		if err := proto.Unmarshal(encoded, &got); err != nil {
			t.Fatal(err)
		}

		raw := []byte(text)
		text = strings.ToValidUTF8(text, "\ufffd")
		aText := &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: text}}
		number := func(n int64) *common.AnyValue {
			return &common.AnyValue{Value: &common.AnyValue_IntValue{IntValue: n}}
		}
		var texts, numbers common.ArrayValue
		for i := range items {
			texts.Values, numbers.Values = append(texts.Values, aText), append(numbers.Values, number(n+int64(i)))
		}
		record := &logs.LogRecord{
			TimeUnixNano: uint64(max(n, 0)), ObservedTimeUnixNano: 1e9, SeverityNumber: logs.SeverityNumber_SEVERITY_NUMBER_WARN, SeverityText: "WARN", EventName: "name",
			Body: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: "body"}},
			Attributes: []*common.KeyValue{
				{Key: "text", Value: aText}, {Key: "number", Value: number(n)},
				{Key: "flag", Value: &common.AnyValue{Value: &common.AnyValue_BoolValue{BoolValue: n > 0}}},
				{Key: "bytes", Value: &common.AnyValue{Value: &common.AnyValue_BytesValue{BytesValue: raw}}},
				{Key: "texts", Value: &common.AnyValue{Value: &common.AnyValue_ArrayValue{ArrayValue: &texts}}},
				{Key: "numbers", Value: &common.AnyValue{Value: &common.AnyValue_ArrayValue{ArrayValue: &numbers}}},
			},
		}
		want := &collector.ExportLogsServiceRequest{ResourceLogs: []*logs.ResourceLogs{{
			SchemaUrl: "schema",
			Resource:  &resources.Resource{Attributes: []*common.KeyValue{{Key: "of", Value: aText}}},
			ScopeLogs: []*logs.ScopeLogs{{
				Scope:      &common.InstrumentationScope{Name: "scope"},
				LogRecords: []*logs.LogRecord{record, record, record},
			}},
		}}}
		if !proto.Equal(want, &got) {
			t.Fatal(cmp.Diff(want, &got, protocmp.Transform()))
		}
		if n := proto.Size(want); n != len(encoded) {
			t.Errorf("%d bytes, the Go types need %d", len(encoded), n)
		}
	})
}
