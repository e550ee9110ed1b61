package otlp

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/export"
	"github.com/quark-linux/quark/export/internal/spool"
)

// Options say where events go. Only URL is needed.
//
// The variables of the environment that OpenTelemetry defines for its exporters have a meaning for
// what is not set here: OTEL_EXPORTER_OTLP_HEADERS, _COMPRESSION, _CERTIFICATE, _CLIENT_CERTIFICATE
// and _CLIENT_KEY, OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME.
type Options struct {
	// URL is that of the receiver, such as http://collector:4318; where it has no path,
	// /v1/logs is added.
	URL     string
	Headers map[string]string // of each request, for credentials
	TLS     *tls.Config       // nil: the system's roots
	// Compress compresses requests, which takes 2 to 4 us more of CPU an event. Set it where
	// the network is dearer than that.
	Compress bool

	// Length and Bytes bound the events that wait: 16384, and 16 MiB as they are in memory,
	// which is some 10,000 events. What comes when there is no room is dropped.
	Length, Bytes int
	Batch         int           // events of a request: 512
	Delay         time.Duration // how long a request waits to become full: 200 ms
	Timeout       time.Duration // of a request: 10 s
	// RetryMin is the pause after the first failure: 500 ms. It doubles with each up to
	// RetryMax: 30 s, or as long as the target asks for, if that is less.
	RetryMin, RetryMax time.Duration
	Grace              time.Duration // for what waits at Close: 5 s

	Names *quark.Names // if not nil, names of users are told too
	// Report is called when the target begins to fail, with why, with nil when it works again,
	// and with what was refused. It is called from a goroutine, and may be nil.
	Report func(error)
}

// Exporter sends the events of a queue. Export is for the goroutine that reads the queue, all else
// for any.
type Exporter struct {
	target  string
	records *recorder
	spool   *spool.Spool[[]byte]
	sender  *sender
}

// MemoryLimit is, for debug.SetMemoryLimit, what keeps a small program that exports with the
// default Length and Bytes below 64 MiB of resident memory, 16 MiB of untouched ballast included in
// the limit: while much waits, garbage is collected more often.
const MemoryLimit = 52 << 20

// The causes of loss, beside those of what waits: queue_full, ended, unconfirmed.
const (
	causeRejected  = "rejected"   // the target refused it
	causeBadAnswer = "bad_answer" // what answered is no receiver of OTLP
)

// New returns an exporter for the events of q. It does not connect: that a target is away is no
// error, and may change.
func New(q *quark.Queue, o Options) (*Exporter, error) {
	u, err := parseURL(o.URL)
	if err != nil {
		return nil, err
	}
	s, err := newSender(o)
	if err == nil {
		err = checkEnvironment()
	}
	if err != nil {
		return nil, err
	}
	options := []otlploghttp.Option{otlploghttp.WithEndpointURL(u.String()), otlploghttp.WithHTTPClient(s.client),
		// The spool tries again.
		otlploghttp.WithRetry(otlploghttp.RetryConfig{Enabled: false})}
	if o.Compress {
		options = append(options, otlploghttp.WithCompression(otlploghttp.GzipCompression))
	}
	if o.Headers != nil {
		options = append(options, otlploghttp.WithHeaders(o.Headers))
	}
	if s.exporter, err = otlploghttp.New(context.Background(), options...); err != nil {
		return nil, err
	}
	s.envelope = newEnvelope(resourceOf(q), "github.com/quark-linux/quark")
	e := &Exporter{target: u.String(), records: newRecorder(q, o.Names), sender: s}
	e.spool = spool.New(spool.Options{
		Length: o.Length, Bytes: cmp.Or(o.Bytes, 16<<20), Batch: o.Batch, BatchBytes: 4 << 20, Delay: o.Delay,
		RetryMin: o.RetryMin, RetryMax: o.RetryMax, Grace: o.Grace, Report: o.Report,
	}, spool.Target[[]byte]{Deliver: s.deliver, Causes: []string{causeRejected, causeBadAnswer}, Gap: gap})
	return e, nil
}

// parseURL returns the URL of a receiver, with its path. What can't be sent to is refused, and what
// the SDK would leave out without a word.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, err
	}
	switch port, err := strconv.ParseUint(cmp.Or(u.Port(), "4318"), 10, 16); {
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, fmt.Errorf("%q is no URL of a receiver, such as http://collector:4318", text)
	case err != nil || port == 0:
		return nil, fmt.Errorf("%s: there is no port %s: choose one up to 65535", u.Redacted(), u.Port())
	case port == 4317:
		return nil, fmt.Errorf("%s: port 4317 is for OTLP by gRPC, choose that for HTTP, which is 4318 by default", u.Redacted())
	case u.User != nil:
		return nil, fmt.Errorf("%s: credentials are sent in headers: put them into OTEL_EXPORTER_OTLP_HEADERS", u.Redacted())
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("%s: only a path can follow the host: leave out what follows it", u)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/logs"
	}
	return u, nil
}

// Export takes an event. It has to be called before the next Get, and never waits for the target.
// An event without a kind is a process that existed at the start.
func (e *Exporter) Export(ev *quark.Event) {
	if e.spool.Full() {
		return // without making the record first
	}
	record := e.records.record(ev)
	e.spool.Put(record, sizeOf(record))
}

// Name returns "otlp".
func (e *Exporter) Name() string { return "otlp" }

// Counts returns what became of the events so far.
func (e *Exporter) Counts() export.Counts { return e.spool.Counts() }

// String says where events go.
func (e *Exporter) String() string { return "OpenTelemetry log records to " + e.target }

// Close sends what waits, for as long as Grace lasts. What is left then is dropped, and counted.
func (e *Exporter) Close() error {
	err := e.spool.Close()
	e.sender.client.CloseIdleConnections()
	return cmp.Or(err, e.sender.exporter.Shutdown(context.Background()))
}

// gap makes the record that says that some were dropped for lack of room.
func gap(count uint64, from, to time.Time) ([]byte, int) {
	record := dropped(count, from, to)
	return record, sizeOf(record)
}

// sizeOf returns about how much memory a record takes while it waits: the allocator and the spool
// need some, too.
func sizeOf(record []byte) int { return len(record) + len(record)/8 + 64 }
