package otlp_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/protobuf/proto"
)

// receiver is a receiver of OTLP by HTTP, with the protocol's own messages. It can be killed and
// restarted at the same address.
type receiver struct {
	t       testing.TB
	address string
	server  *http.Server
	// behave, if not nil, answers in place of the receiver, and reports whether it did.
	behave func(w http.ResponseWriter, r *http.Request) bool

	mu       sync.Mutex
	records  []*logs.LogRecord
	resource map[string]string
	requests int
	header   http.Header
}

func newReceiver(t testing.TB) *receiver {
	r := &receiver{t: t, address: "127.0.0.1:0"}
	r.start()
	t.Cleanup(r.kill)
	return r
}

func (r *receiver) url() string { return "http://" + r.address }

func (r *receiver) start() {
	l, err := net.Listen("tcp", r.address)
	if err != nil {
		r.t.Fatal(err)
	}
	r.address = l.Addr().String()
	r.server = &http.Server{Handler: r}
	go r.server.Serve(l)
}

// kill ends the receiver at once, even during a request.
func (r *receiver) kill() { r.server.Close() }

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	if r.behave != nil && r.behave(w, q) {
		return
	}
	if q.URL.Path != "/v1/logs" || q.Method != http.MethodPost || q.Header.Get("Content-Type") != "application/x-protobuf" {
		http.Error(w, "not for here", http.StatusNotFound)
		return
	}
	var body io.Reader = q.Body
	if q.Header.Get("Content-Encoding") == "gzip" {
		var err error
		if body, err = gzip.NewReader(body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	b, err := io.ReadAll(body)
	if err != nil {
		return
	}
	var m collector.ExportLogsServiceRequest
	if err := proto.Unmarshal(b, &m); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests++
	r.header = q.Header
	for _, resource := range m.ResourceLogs {
		r.resource = values(resource.Resource.Attributes)
		for _, scope := range resource.ScopeLogs {
			r.records = append(r.records, scope.LogRecords...)
		}
	}
	answer(w, &collector.ExportLogsServiceResponse{})
}

func answer(w http.ResponseWriter, m *collector.ExportLogsServiceResponse) {
	b, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	w.Write(b)
}

// got returns the received records.
func (r *receiver) got() []*logs.LogRecord {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.records
}

// values returns attributes as texts.
func values(attributes []*common.KeyValue) map[string]string {
	all := make(map[string]string)
	for _, a := range attributes {
		all[a.Key] = value(a.Value)
	}
	return all
}

func value(v *common.AnyValue) string {
	switch v := v.Value.(type) {
	case *common.AnyValue_StringValue:
		return v.StringValue
	case *common.AnyValue_IntValue:
		return fmt.Sprint(v.IntValue)
	case *common.AnyValue_BoolValue:
		return fmt.Sprint(v.BoolValue)
	case *common.AnyValue_BytesValue:
		return fmt.Sprintf("%q", v.BytesValue)
	case *common.AnyValue_ArrayValue:
		var all []string
		for _, e := range v.ArrayValue.Values {
			all = append(all, fmt.Sprintf("%q", value(e)))
		}
		return "[" + strings.Join(all, " ") + "]"
	}
	return fmt.Sprint(v)
}

// distinct returns the number of different records of events, by their ids.
func distinct(records []*logs.LogRecord) uint64 {
	ids := make(map[string]bool)
	for _, r := range records {
		if id := values(r.Attributes)["log.record.uid"]; id != "" {
			ids[id] = true
		}
	}
	return uint64(len(ids))
}

// dump prints records, one attribute a line, without values that differ between runs.
func dump(records []*logs.LogRecord) []byte {
	var b bytes.Buffer
	for _, r := range records {
		fmt.Fprintf(&b, "%s %s %q\n", r.EventName, r.SeverityText, r.Body.GetStringValue())
		for _, a := range r.Attributes {
			v := value(a.Value)
			if a.Key == "log.record.uid" {
				_, v, _ = strings.Cut(v, "-")
				v = "RUN-" + v
			}
			fmt.Fprintf(&b, "\t%s\t%s\n", a.Key, v)
		}
	}
	return b.Bytes()
}
