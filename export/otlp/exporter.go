package otlp

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/log"
	sdk "go.opentelemetry.io/otel/sdk/log"

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
	// Compress compresses requests, which takes some 15 us more of CPU an event. Set it where
	// the network is dearer than that.
	Compress bool

	// Length and Bytes bound the events that wait: 16384, and 16 MiB as they are in memory,
	// which is some 5,000 events. What comes when there is no room is dropped.
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
	target   string
	records  *recorder
	provider *sdk.LoggerProvider
	logger   log.Logger
	spool    *spool.Spool[*sdk.Record]
	sender   *sender
	// latest is the last one; it has the resource, which only the SDK can set.
	latest atomic.Pointer[sdk.Record]
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
	r := newRecorder(q, o.Names)
	e := &Exporter{target: u.String(), records: r, sender: s}
	e.spool = spool.New(spool.Options{
		Length: o.Length, Bytes: cmp.Or(o.Bytes, 16<<20), Batch: o.Batch, BatchBytes: 4 << 20, Delay: o.Delay,
		RetryMin: o.RetryMin, RetryMax: o.RetryMax, Grace: o.Grace, Report: o.Report,
	}, spool.Target[*sdk.Record]{Deliver: s.deliver, Causes: []string{causeRejected, causeBadAnswer}, Gap: e.gap})
	e.provider = sdk.NewLoggerProvider(sdk.WithResource(resourceOf(q)), sdk.WithProcessor(processor{e}),
		// Each record is ours, and has each name once: to look for others costs more
		// than all else.
		sdk.WithAllowKeyDuplication(), sdk.WithAttributeCountLimit(-1), sdk.WithAttributeValueLengthLimit(-1))
	e.logger = e.provider.Logger("github.com/quark-linux/quark")
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
	e.logger.Emit(context.Background(), e.records.record(ev))
}

// Name returns "otlp".
func (e *Exporter) Name() string { return "otlp" }

// Counts returns what became of the events so far.
func (e *Exporter) Counts() export.Counts { return e.spool.Counts() }

// String says where events go.
func (e *Exporter) String() string { return "OpenTelemetry log records to " + e.target }

// Close sends what waits, for as long as Grace lasts. What is left then is dropped, and counted.
func (e *Exporter) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return e.provider.Shutdown(ctx)
}

// gap makes the record that says that some were dropped for lack of room.
func (e *Exporter) gap(count uint64, from, to time.Time) (*sdk.Record, int) {
	r := *e.latest.Load()
	e.records.dropped(&r, count, from, to)
	return &r, sizeOf(&r, 0)
}

// processor is the SDK's way to the spool.
type processor struct{ *Exporter }

// Enabled reports that all records are taken.
func (processor) Enabled(context.Context, sdk.EnabledParameters) bool { return true }

// OnEmit takes the record of Export, which nobody else has: there is no other processor.
func (p processor) OnEmit(_ context.Context, r *sdk.Record) error {
	// The SDK would take them one by one, and make room for each.
	r.SetAttributes(p.records.attrs...)
	p.latest.Store(r)
	p.spool.Put(r, sizeOf(r, p.records.lists))
	return nil
}

// Shutdown ends the spool, which has a time limit of its own, then the exporter.
func (p processor) Shutdown(ctx context.Context) error {
	err := p.spool.Close()
	p.sender.client.CloseIdleConnections()
	return cmp.Or(err, p.sender.exporter.Shutdown(ctx))
}

// ForceFlush does nothing: what waits is sent within a moment anyway.
func (processor) ForceFlush(context.Context) error { return nil }

// sizeOf returns about how much memory a record takes, with lists of a size.
func sizeOf(r *sdk.Record, lists int) (n int) {
	n = 700 + lists
	r.WalkAttributes(func(kv keyValue) bool {
		if kv.Value.Type() == attribute.STRING {
			n += len(kv.Value.AsString())
		}
		n += 64
		return true
	})
	return n
}

// valid returns a text as the protocol can have it.
func valid(s string) string { return strings.ToValidUTF8(s, "\ufffd") }
