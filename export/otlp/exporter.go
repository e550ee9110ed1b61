package otlp

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net/url"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/log"
	sdk "go.opentelemetry.io/otel/sdk/log"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/export"
)

// Options configure an exporter. Only URL is required.
//
// For other settings, OpenTelemetry's environment variables for exporters and batches apply, such
// as OTEL_EXPORTER_OTLP_HEADERS, _COMPRESSION, _CERTIFICATE, _CLIENT_CERTIFICATE and _CLIENT_KEY,
// OTEL_BLRP_SCHEDULE_DELAY, OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME.
type Options struct {
	// URL is the address of the receiver, such as http://collector:4318; if it has no path,
	// /v1/logs is added.
	URL     string
	Headers map[string]string // of each request, such as credentials
	TLS     *tls.Config       // nil: the system's roots

	// Length limits the number of queued events; 0 means 16384. Bytes limits their memory; 0
	// means about 16 MiB, which is enough for some 4,000 events. Further events are dropped.
	Length, Bytes int
	Batch         int           // events per request: 512
	Delay         time.Duration // how long a request waits to become full: 1 s
	Timeout       time.Duration // time limit of a request: 10 s
	// RetryMin is the pause after the first failure: 500 ms. The pause grows with each failure
	// up to RetryMax: 5 s, or the time that the target requests.
	RetryMin, RetryMax time.Duration
	Grace              time.Duration // time limit for queued events at Close: 5 s

	Names *quark.Names // if not nil, records include the names of users
	// Report, if not nil, is called with the error when the target begins to fail, with nil
	// when the target works again, and with the error of rejected records. It is called from
	// another goroutine.
	Report func(error)
}

// Exporter sends the events of a queue. Export is for the goroutine that reads the queue. Any
// goroutine may call the other methods.
type Exporter struct {
	target   string
	o        Options
	provider *sdk.LoggerProvider
	logger   log.Logger
	sender   *sender

	mu      sync.Mutex
	records *recorder
	waiting []waiting // emitted, outcome not counted yet
	bytes   int       // memory of waiting
	closed  bool
	counts  export.Counts // without Queued
	missing uint64        // events dropped since the last record of dropped events
	from    time.Time     // time of the first of them
}

// waiting is a record that was passed to the SDK.
type waiting struct {
	size int
	own  bool // not an event, but the number of dropped events
}

// The causes of loss.
const (
	causeQueueFull   = "queue_full"  // the queue was full
	causeRejected    = "rejected"    // the target rejected it, or is not an OTLP receiver
	causeEnded       = "ended"       // unsent at the end
	causeUnconfirmed = "unconfirmed" // sent, but not acknowledged at the end
)

// New returns an exporter for the events of q. It does not connect, because the target may become
// available later.
func New(q *quark.Queue, o Options) (*Exporter, error) {
	u, err := parseURL(o.URL)
	if err != nil {
		return nil, err
	}
	// One for an event, one for the record of dropped events.
	o.Length = max(cmp.Or(o.Length, 16384), 2)
	o.Bytes = cmp.Or(o.Bytes, 16<<20)
	o.Grace = cmp.Or(o.Grace, 5*time.Second)
	e := &Exporter{target: u.String(), o: o, records: newRecorder(q, o.Names)}
	e.counts.Dropped = map[string]uint64{causeQueueFull: 0, causeRejected: 0, causeEnded: 0, causeUnconfirmed: 0}
	if e.sender, err = newSender(u.String(), &o, e.account); err != nil {
		return nil, err
	}
	const never = 1 << 62
	batches := []sdk.BatchProcessorOption{sdk.WithMaxQueueSize(o.Length), sdk.WithExportTimeout(never)}
	if o.Batch > 0 {
		batches = append(batches, sdk.WithExportMaxBatchSize(o.Batch))
	}
	if o.Delay > 0 {
		batches = append(batches, sdk.WithExportInterval(o.Delay))
	}
	e.provider = sdk.NewLoggerProvider(sdk.WithResource(resourceOf(q)), sdk.WithAttributeCountLimit(-1), sdk.WithAllowKeyDuplication(),
		sdk.WithProcessor(sdk.NewBatchProcessor(e.sender, batches...)))
	e.logger = e.provider.Logger("github.com/quark-linux/quark")
	return e, nil
}

// parseURL returns the URL of a receiver, with its path. It rejects URLs that cannot be used, and
// parts that the SDK would silently ignore.
func parseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, err
	}
	switch port, err := strconv.ParseUint(cmp.Or(u.Port(), "4318"), 10, 16); {
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, fmt.Errorf("%q: want the URL of a receiver, such as http://collector:4318", text)
	case err != nil || port == 0:
		return nil, fmt.Errorf("%s: invalid port %s: want 1 to 65535", u.Redacted(), u.Port())
	case port == 4317:
		return nil, fmt.Errorf("%s: port 4317 is for OTLP by gRPC: use the port for HTTP, by default 4318", u.Redacted())
	case u.User != nil:
		return nil, fmt.Errorf("%s: credentials are not allowed: set headers in OTEL_EXPORTER_OTLP_HEADERS", u.Redacted())
	case u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("%s: only a path may follow the host: remove the query or fragment", u)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/logs"
	}
	return u, nil
}

// Export queues an event. Call it before the next Get. It never waits for the target. An event
// without a kind is a process that existed at the start.
func (e *Exporter) Export(ev *quark.Event) {
	size := sizeOf(ev)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.counts.Taken++
	const own = 1 // reserved for the record of dropped events
	switch {
	case e.closed:
		e.counts.Dropped[causeEnded]++
		return
	case len(e.waiting)+own >= e.o.Length || len(e.waiting) > 0 && e.bytes+size > e.o.Bytes:
		if e.missing++; e.missing == 1 {
			e.from = time.Now()
		}
		e.counts.Dropped[causeQueueFull]++
		return
	}
	e.emitDropped()
	e.emit(e.records.record(ev), waiting{size: size})
}

// emitDropped emits a record with the number of events that were dropped before it, if any.
func (e *Exporter) emitDropped() {
	if e.missing > 0 {
		e.emit(dropped(e.missing, e.from, time.Now()), waiting{recordSize, true})
		e.missing = 0
	}
}

// emit passes a record to the SDK, whose queue has room for it.
func (e *Exporter) emit(record log.Record, w waiting) {
	e.waiting = append(e.waiting, w)
	e.bytes += w.size
	e.logger.Emit(context.Background(), record)
}

// recordSize is the approximate memory that the SDK needs for a record, without its longest string.
const recordSize = 4 << 10

// sizeOf returns the approximate memory of the record of an event.
func sizeOf(ev *quark.Event) int {
	if ev.Process == nil {
		return recordSize
	}
	const argument = 16 // a string's header
	return recordSize + len(ev.Process.Image.Args) + argument*min(len(ev.Process.Image.Args), maxArgs)
}

// account counts the first n waiting records: lost of their events as dropped, the others as
// delivered.
func (e *Exporter) account(n int, lost int, cause string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	events := uint64(0)
	for _, w := range e.waiting[:n] {
		e.bytes -= w.size
		if !w.own {
			events++
		}
	}
	e.waiting = e.waiting[n:]
	dropped := min(events, uint64(lost))
	e.counts.Dropped[cause] += dropped
	e.counts.Delivered += events - dropped
}

// Name returns "otlp".
func (e *Exporter) Name() string { return "otlp" }

// Counts returns the outcomes of the events so far.
func (e *Exporter) Counts() export.Counts {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.counts
	c.Dropped = maps.Clone(c.Dropped)
	for _, w := range e.waiting {
		if !w.own {
			c.Queued++
		}
	}
	return c
}

// String returns the destination of events.
func (e *Exporter) String() string { return "OpenTelemetry log records to " + e.target }

// Close sends the waiting records until Grace expires. The remaining records are dropped and
// counted.
func (e *Exporter) Close() error {
	e.mu.Lock()
	if !e.closed {
		e.emitDropped()
	}
	e.closed = true
	e.mu.Unlock()
	defer time.AfterFunc(e.o.Grace, e.sender.end).Stop()
	ctx, cancel := context.WithTimeout(context.Background(), e.o.Grace+10*time.Second)
	defer cancel()
	return e.provider.Shutdown(ctx)
}
