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
	"net/http"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	sdk "go.opentelemetry.io/otel/sdk/log"
	collector "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	"google.golang.org/protobuf/proto"
)

// sender wraps the SDK's exporter and is its transport. As an exporter it counts the outcome of
// each record of a batch. As a transport it makes the SDK retry after a missing answer, which the
// SDK by itself does only for some answers, and reads the number of records that the target
// rejected.
type sender struct {
	*otlploghttp.Exporter
	base    *http.Transport
	account func(n, lost int, cause string)
	reporter
	ending context.Context // ends all sending
	end    context.CancelFunc

	taken    bool // the target accepted the current batch, except the rejected records
	rejected int
}

func newSender(url string, o *Options, account func(n, lost int, cause string)) (*sender, error) {
	config := o.TLS
	if config == nil {
		var err error
		if config, err = tlsOfEnvironment(); err != nil {
			return nil, err
		}
	}
	s := &sender{base: http.DefaultTransport.(*http.Transport).Clone(), account: account, reporter: reporter{report: o.Report}}
	s.base.TLSClientConfig = config
	options := []otlploghttp.Option{
		otlploghttp.WithEndpointURL(url),
		otlploghttp.WithHTTPClient(&http.Client{
			Transport: s, Timeout: cmp.Or(o.Timeout, 10*time.Second),
			// The target of a redirect would get a GET without the records.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}),
		otlploghttp.WithRetry(otlploghttp.RetryConfig{
			Enabled: true, InitialInterval: cmp.Or(o.RetryMin, 500*time.Millisecond), MaxInterval: cmp.Or(o.RetryMax, 5*time.Second),
			MaxElapsedTime: 0, // only the context ends retries
		}),
	}
	if o.Headers != nil {
		options = append(options, otlploghttp.WithHeaders(o.Headers))
	}
	var err error
	s.Exporter, err = otlploghttp.New(context.Background(), options...)
	s.ending, s.end = context.WithCancel(context.Background())
	return s, err
}

// tlsOfEnvironment returns the configuration for the files that OpenTelemetry's variables name.
func tlsOfEnvironment() (*tls.Config, error) {
	config := new(tls.Config)
	if file := envVariable("CERTIFICATE"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read OTEL_EXPORTER_OTLP_CERTIFICATE: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: no certificate in %s", file)
		}
	}
	if file, key := envVariable("CLIENT_CERTIFICATE"), envVariable("CLIENT_KEY"); file != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(file, key)
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and _KEY: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

func envVariable(name string) string {
	return cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_LOGS_"+name), os.Getenv("OTEL_EXPORTER_OTLP_"+name))
}

// Export sends a batch until the target answers or sending ends, and counts the outcome of its
// records.
func (s *sender) Export(ctx context.Context, batch []sdk.Record) error {
	n := len(batch)
	if s.ending.Err() != nil {
		s.account(n, n, causeEnded)
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ending, cancel)()
	s.taken, s.rejected = false, 0
	err := s.Exporter.Export(ctx, batch)
	switch {
	case s.taken:
		s.account(n, min(s.rejected, n), causeRejected)
		s.answered(err)
	case s.ending.Err() != nil:
		s.account(n, n, causeUnconfirmed)
		s.next = time.Time{}
		s.failed(errSlow)
	default:
		s.account(n, n, causeRejected)
		s.answered(fmt.Errorf("%d events are dropped: %w", n, err))
	}
	return nil
}

var errSlow = errors.New("the target did not accept all events before the deadline")

// maxAnswer limits the bytes of an answer that are read.
const maxAnswer = 64 << 10

// RoundTrip sends a request of the SDK.
func (s *sender) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := s.base.RoundTrip(request)
	var body []byte
	if err == nil {
		body, err = io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
		answer.Body.Close()
	}
	if err != nil {
		if s.ending.Err() == nil {
			s.failed(fmt.Errorf("no answer, retrying: %w", err))
		}
		return &http.Response{StatusCode: http.StatusServiceUnavailable, Request: request, Body: io.NopCloser(strings.NewReader(err.Error()))}, nil
	}
	answer.Body = io.NopCloser(bytes.NewReader(body))
	switch status := answer.StatusCode; {
	case status == http.StatusTooManyRequests, status == http.StatusBadGateway, status == http.StatusServiceUnavailable, status == http.StatusGatewayTimeout:
		s.failed(fmt.Errorf("the target is not ready, retrying: status %d", status))
	case status >= 200 && status <= 299:
		if s.rejected, err = rejected(answer.Header, body); err != nil {
			return nil, err
		}
		s.taken = true
	}
	return answer, nil
}

// rejected returns the number of rejected records in a successful answer.
func rejected(header http.Header, body []byte) (int, error) {
	if len(body) == 0 {
		return 0, nil
	}
	if media, _, _ := mime.ParseMediaType(header.Get("Content-Type")); media != "application/x-protobuf" {
		return 0, fmt.Errorf("the target is not an OTLP receiver, as it answers with %q: check the URL", media)
	}
	var m collector.ExportLogsServiceResponse
	if err := proto.Unmarshal(body, &m); err != nil {
		return 0, fmt.Errorf("the answer is not an OTLP message: %w", err)
	}
	const most = 1 << 30
	return int(min(max(m.GetPartialSuccess().GetRejectedLogRecords(), 0), most)), nil
}

// Shutdown ends the SDK's exporter, after the last batch.
func (s *sender) Shutdown(ctx context.Context) error {
	s.end()
	s.base.CloseIdleConnections()
	return s.Exporter.Shutdown(ctx)
}

// reporter reports that a target begins to fail or works again, and, at most every 10 seconds, the
// rejected records.
type reporter struct {
	report  func(error) // or nil
	failing bool
	next    time.Time // earliest time of the next report, except of the end of a failure
}

const reportEvery = 10 * time.Second

func (r *reporter) due() bool {
	now := time.Now()
	if r.report == nil || now.Before(r.next) {
		return false
	}
	r.next = now.Add(reportEvery)
	return true
}

// failed reports a failure, unless the target is already failing.
func (r *reporter) failed(err error) {
	if !r.failing && r.due() {
		r.failing = true
		r.report(err)
	}
}

// answered is called when a target has answered, with the error of rejected records, if any.
func (r *reporter) answered(problem error) {
	if r.failing {
		r.failing = false
		r.report(nil)
	}
	if problem != nil && r.due() {
		const most = 400 // bytes: the error includes the target's answer
		r.report(fmt.Errorf("%.*v", most, problem))
	}
}
