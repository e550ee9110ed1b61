package otlp

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	sdk "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/resource"
	collector "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	"golang.org/x/net/http/httpguts"
	"google.golang.org/protobuf/proto"

	"github.com/quark-linux/quark/export/internal/spool"
)

// sender delivers batches by the SDK's exporter. That returns an error which does not say how many
// records were refused, or whether another try makes sense; so the sender looks at the answers
// itself, as the exporter's transport.
type sender struct {
	exporter  *otlploghttp.Exporter
	client    *http.Client
	transport *http.Transport
	last      answer // to the request of the current delivery, of which there is one at a time
	sent      atomic.Bool
	warned    string // the latest warning reported: each is once, not with each batch
	gzip      *gzip.Writer
	envelope  envelope
	request   []byte // of the current delivery
}

// answer is what came of a request.
type answer struct {
	sent   bool // it may have reached the target
	status int  // 0: none came
	media  string
	after  time.Duration
	to     string       // where a redirection goes
	body   bytes.Buffer // its beginning
	broken bool         // its end did not come

	warning string // the message of partial_success
}

// maxAnswer is as much of an answer as is looked at.
const maxAnswer = 64 << 10

func newSender(o Options) (*sender, error) {
	config := o.TLS
	if config == nil {
		var err error
		if config, err = tlsOfEnvironment(); err != nil {
			return nil, err
		}
	}
	s := &sender{gzip: gzip.NewWriter(io.Discard), transport: &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSClientConfig:        config,
		TLSHandshakeTimeout:    10 * time.Second,
		IdleConnTimeout:        time.Minute,
		ForceAttemptHTTP2:      true,
		MaxResponseHeaderBytes: 64 << 10,
	}}
	s.client = &http.Client{
		Transport: s, Timeout: cmp.Or(o.Timeout, 10*time.Second),
		// Another place would get a GET without the records, and its answer be taken for
		// one to them.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return s, nil
}

// tlsOfEnvironment returns what the variables of OpenTelemetry name. The system's roots are read
// now: the root directory may change.
func tlsOfEnvironment() (*tls.Config, error) {
	config := new(tls.Config)
	if file := variable("CERTIFICATE"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read OTEL_EXPORTER_OTLP_CERTIFICATE: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: there is no certificate in %s", file)
		}
	} else {
		config.RootCAs, _ = x509.SystemCertPool() // without one https fails, and says so
	}
	if file, key := variable("CLIENT_CERTIFICATE"), variable("CLIENT_KEY"); file != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(file, key)
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and _KEY: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// checkEnvironment returns why a variable can't be sent, with which nothing else could be: the SDK
// takes what a header or the protocol can't have, and each request fails.
func checkEnvironment() error {
	for pair := range strings.SplitSeq(variable("HEADERS"), ",") {
		name, value, _ := strings.Cut(pair, "=")
		if value, err := url.PathUnescape(value); err == nil && !httpguts.ValidHeaderFieldValue(strings.TrimSpace(value)) {
			return fmt.Errorf("OTEL_EXPORTER_OTLP_HEADERS: the value of %s has characters that a header can't have, such as line ends", strings.TrimSpace(name))
		}
	}
	for _, a := range resource.Environment().Attributes() {
		if !utf8.ValidString(string(a.Key)) || !utf8.ValidString(a.Value.AsString()) {
			return fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES or OTEL_SERVICE_NAME: %q, %q is not UTF-8", a.Key, a.Value.AsString())
		}
	}
	return nil
}

func variable(name string) string {
	return cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_LOGS_"+name), os.Getenv("OTEL_EXPORTER_OTLP_"+name))
}

// RoundTrip sends a request of the SDK with the batch in place of its body, which has one empty
// record, and notes what came of it.
func (s *sender) RoundTrip(request *http.Request) (*http.Response, error) {
	request.Body.Close()
	trace := &httptrace.ClientTrace{WroteHeaders: func() { s.sent.Store(true) }}
	request = request.WithContext(httptrace.WithClientTrace(request.Context(), trace))
	content := s.request
	if request.Header.Get("Content-Encoding") == "gzip" {
		content = s.compress(content)
	}
	request.ContentLength = int64(len(content))
	request.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
	request.Body, _ = request.GetBody()
	response, err := s.transport.RoundTrip(request)
	s.last.sent = s.sent.Load()
	if err != nil {
		return nil, err
	}
	s.last.status = response.StatusCode
	s.last.media, _, _ = mime.ParseMediaType(response.Header.Get("Content-Type"))
	s.last.after = pause(response.Header.Get("Retry-After"))
	s.last.to = response.Header.Get("Location")
	response.Body = &body{response.Body, &s.last}
	return response, nil
}

func (s *sender) compress(content []byte) []byte {
	var out bytes.Buffer
	s.gzip.Reset(&out)
	s.gzip.Write(content)
	s.gzip.Close()
	return out.Bytes()
}

// pause returns how long Retry-After, in seconds or as a date, asks to wait.
func pause(after string) time.Duration {
	// What is out of range is the largest.
	if seconds, err := strconv.ParseUint(after, 10, 20); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(seconds) * time.Second
	}
	if date, err := http.ParseTime(after); err == nil {
		return max(0, time.Until(date))
	}
	return 0
}

// body is that of an answer, which notes what is read of it.
type body struct {
	io.ReadCloser
	to *answer
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.to.take(p[:n])
	b.to.broken = b.to.broken || err != nil && !errors.Is(err, io.EOF)
	return n, err
}

// take takes a part of the body, as far as that is looked at.
func (a *answer) take(b []byte) { a.body.Write(b[:min(len(b), maxAnswer-a.body.Len())]) }

// deliver sends a batch once.
func (s *sender) deliver(ctx context.Context, batch [][]byte) spool.Outcome {
	s.request = s.envelope.request(batch)
	s.last = answer{}
	s.sent.Store(false)
	err := s.exporter.Export(ctx, make([]sdk.Record, 1)) // see RoundTrip
	s.request = nil
	out := s.last.outcome(len(batch), err)
	if said := s.last.warning; out.Err == nil && said != "" && said != s.warned {
		s.warned = said
		out.Err = fmt.Errorf("the target took all events, with a warning: %.200q", said)
	}
	return out
}

// outcome says what became of n records, whose export returned an error.
func (a *answer) outcome(n int, err error) spool.Outcome {
	switch {
	case a.status == 0:
		// Unreachable, too slow, or not to be understood as HTTP.
		return spool.Outcome{Retry: true, Sent: a.sent, Err: fmt.Errorf("no answer, trying again: %w", err)}
	case a.status == http.StatusTooManyRequests, a.status == http.StatusBadGateway,
		a.status == http.StatusServiceUnavailable, a.status == http.StatusGatewayTimeout:
		return spool.Outcome{Retry: true, After: a.after, Sent: a.status >= 500,
			Err: fmt.Errorf("the target is not ready, trying again: status %d", a.status)}
	case a.status < 200 || a.status > 299:
		return spool.Outcome{Dropped: n, Cause: causeRejected, Err: fmt.Errorf("refused with status %d%s: %d events are dropped: %.200q", a.status, a.advice(), n, a.body.String())}
	}
	if a.broken || a.body.Len() == 0 && err != nil {
		// The connection broke after the header.
		return spool.Outcome{Retry: true, Sent: true, Err: fmt.Errorf("no whole answer, trying again: %w", err)}
	}
	rejected, problem := a.rejected()
	switch {
	case problem != nil:
		return spool.Outcome{Dropped: n, Cause: causeBadAnswer, Err: fmt.Errorf("%w: %d events are counted as dropped", problem, n)}
	case rejected > 0:
		return spool.Outcome{Dropped: int(min(rejected, int64(n))), Cause: causeRejected, Err: fmt.Errorf("%d of %d events were refused: %w", rejected, n, err)}
	}
	return spool.Outcome{}
}

// advice returns what can be done about a refusal, or nothing.
func (a *answer) advice() string {
	switch a.status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return fmt.Sprintf(", which sends to %.200q: give the URL that takes the records", a.to)
	case http.StatusUnauthorized, http.StatusForbidden:
		return ": look at the credentials, in OTEL_EXPORTER_OTLP_HEADERS"
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return ": look at the path of the URL"
	}
	return ""
}

// rejected returns how many records an answer says that it has not taken.
func (a *answer) rejected() (int64, error) {
	if a.body.Len() == 0 {
		return 0, nil
	}
	if a.media != "application/x-protobuf" {
		return 0, fmt.Errorf("what answered is no receiver of OTLP, but sends %q: look at the URL", a.media)
	}
	var m collector.ExportLogsServiceResponse
	if err := proto.Unmarshal(a.body.Bytes(), &m); err != nil {
		return 0, fmt.Errorf("the answer is not of OTLP: %w", err)
	}
	a.warning = m.GetPartialSuccess().GetErrorMessage()
	return m.GetPartialSuccess().GetRejectedLogRecords(), nil
}
