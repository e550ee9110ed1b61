// Command quark-export is quark-mon with exporters linked in. quark-mon runs it where its options
// ask for one; see docs/quark-mon.8.
package main

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"go.opentelemetry.io/otel"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/cmd/quark-mon/watch"
	"github.com/quark-linux/quark/export"
	"github.com/quark-linux/quark/export/otlp"
	"github.com/quark-linux/quark/export/prom"
)

func main() {
	watch.Main(&watch.Exporters{Metrics: serveMetrics, OTLP: sendLogs})
}

// sendLogs exports to a collector of OpenTelemetry.
func sendLogs(url string, q *quark.Queue, names *quark.Names, report func(error)) (watch.Exporter, export.Counter, error) {
	// The SDK reports a variable of the environment that it can't use, and goes on without it.
	var wrong []error
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { wrong = append(wrong, err) }))
	e, err := otlp.New(q, otlp.Options{URL: url, Names: names, Report: report})
	if err != nil {
		return nil, nil, err
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(report))
	if len(wrong) > 0 {
		e.Close()
		return nil, nil, withoutSecrets(wrong[0])
	}
	debug.SetMemoryLimit(otlp.MemoryLimit)
	return e, e, nil
}

// withoutSecrets returns the error of a variable of the environment. That of headers has all of
// their values.
func withoutSecrets(err error) error {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_LOGS_HEADERS"} {
		if strings.Contains(err.Error(), name) {
			return fmt.Errorf("%s is no list of NAME=VALUE with commas, and %%XX for what a value can't have", name)
		}
	}
	return err
}

// metrics are a collector with its server.
type metrics struct {
	*prom.Collector
	server *prom.Server
}

func serveMetrics(address string, q *quark.Queue, o quark.Options, others []export.Counter) (watch.Exporter, error) {
	c := prom.New(q, prom.Options{HoldTime: o.HoldTime, MaxLength: o.MaxLength, Exporters: others})
	s, err := prom.Listen(address, c)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &metrics{c, s}, nil
}

func (m *metrics) Export(ev *quark.Event) {
	if ev.Events != 0 { // else it is a process of the start
		m.Count(ev)
	}
}

func (m *metrics) Close() error { return errors.Join(m.server.Close(), m.Collector.Close()) }

func (m *metrics) String() string {
	return fmt.Sprintf("metrics at http://%s/metrics", m.server.Addr())
}
