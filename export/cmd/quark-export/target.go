package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"go.opentelemetry.io/otel"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/exehash"
	counting "github.com/quark-linux/quark/export"
	"github.com/quark-linux/quark/export/ecs"
	"github.com/quark-linux/quark/export/otlp"
	"github.com/quark-linux/quark/export/prom"
	"github.com/quark-linux/quark/internal/reopen"
)

// target is a destination of events.
type target struct {
	name    string
	export  func(*quark.Event) error // called before the next Get
	close   func() error             // returns in bounded time
	counter counting.Counter         // nil if the target never drops events
}

func (t target) String() string { return t.name }

// targets opens all targets of the options. After an error it also returns the targets that are
// open.
func (o *options) targets(q *quark.Queue, out, errw io.Writer) (all []target, err error) {
	var names *quark.Names
	if o.names {
		names = quark.NewNames()
	}
	report := func(name string) func(error) {
		return func(err error) {
			if err == nil {
				err = errors.New("works again")
			}
			fmt.Fprintf(errw, "quark-export: %s: %v\n", name, err)
		}
	}
	if o.ecs {
		t, err := o.documents(q, names, out, report("--output"))
		if err != nil {
			return all, fmt.Errorf("--output: %w", err)
		}
		all = append(all, t)
	}
	if o.otlp != "" {
		t, err := records(q, names, o.otlp, report("otlp"))
		if err != nil {
			return all, fmt.Errorf("--otlp %s: %w", o.otlp, err)
		}
		all = append(all, t)
	}
	if o.metrics != "" {
		t, err := metrics(q, o, all)
		if err != nil {
			return all, fmt.Errorf("--metrics %s: %w", o.metrics, err)
		}
		all = append(all, t)
	}
	return all, nil
}

// documents returns the target that writes documents of the Elastic Common Schema to --output or,
// without it, to out.
func (o *options) documents(q *quark.Queue, names *quark.Names, out io.Writer, failed func(error)) (target, error) {
	t := target{name: "documents of the Elastic Common Schema", close: func() error { return nil }}
	if o.output != "" {
		f, err := reopen.Open(o.output, failed)
		if err != nil {
			return t, err
		}
		out, t.close = f, f.Close
	}
	encoder, line := ecs.NewEncoder(q), []byte(nil)
	encoder.Names = names
	if o.hash {
		encoder.Hashes = new(exehash.Cache)
	}
	t.export = func(ev *quark.Event) error {
		line = append(encoder.Append(line[:0], ev), '\n')
		_, err := out.Write(line)
		return err
	}
	return t, nil
}

// records returns the target that sends log records to an OpenTelemetry collector.
func records(q *quark.Queue, names *quark.Names, url string, report func(error)) (target, error) {
	// The SDK reports and ignores an invalid environment variable.
	var wrong []error
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { wrong = append(wrong, err) }))
	e, err := otlp.New(q, otlp.Options{URL: url, Names: names, Report: report})
	if err != nil {
		return target{}, err
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(report))
	if len(wrong) > 0 {
		return target{}, errors.Join(withoutSecrets(wrong[0]), e.Close())
	}
	return target{name: e.String(), close: e.Close, counter: e, export: func(ev *quark.Event) error {
		e.Export(ev)
		return nil
	}}, nil
}

// withoutSecrets returns the error about an environment variable. For headers it replaces the SDK's
// error, which contains their values.
func withoutSecrets(err error) error {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_LOGS_HEADERS"} {
		if strings.Contains(err.Error(), name) {
			return fmt.Errorf("%s: want a comma-separated list of NAME=VALUE, with special characters as %%XX", name)
		}
	}
	return err
}

// metrics returns the target that serves counters to Prometheus, with the counts of the other
// targets.
func metrics(q *quark.Queue, o *options, others []target) (target, error) {
	options := prom.Options{HoldTime: o.Queue.HoldTime, MaxLength: o.Queue.MaxLength}
	for _, t := range others {
		if t.counter != nil {
			options.Exporters = append(options.Exporters, t.counter)
		}
	}
	c := prom.New(q, options)
	s, err := prom.Listen(o.metrics, c)
	if err != nil {
		return target{}, err
	}
	t := target{name: fmt.Sprintf("metrics at http://%s/metrics", s.Addr()), close: s.Close}
	t.export = func(ev *quark.Event) error {
		if ev.Events != 0 { // otherwise an initial process
			c.Count(ev)
		}
		return nil
	}
	return t, nil
}

// droppedError reports that some events were not delivered to the targets.
type droppedError struct{ events, taken uint64 }

func (e *droppedError) Error() string {
	return fmt.Sprintf("%d of %d events were not delivered to their targets: the lines above say why", e.events, e.taken)
}

// add adds and prints the counts of a target's counter.
func (e *droppedError) add(c counting.Counter, errw io.Writer) {
	if c == nil {
		return
	}
	n := c.Counts()
	e.events += n.Lost() + n.Queued
	e.taken += n.Taken
	fmt.Fprintf(errw, "%s: %d events, %d delivered", c.Name(), n.Taken, n.Delivered)
	for _, cause := range n.Causes() {
		if d := n.Dropped[cause]; d > 0 {
			fmt.Fprintf(errw, ", dropped: %s %d", cause, d)
		}
	}
	if n.Queued > 0 {
		fmt.Fprintf(errw, ", left behind %d", n.Queued)
	}
	fmt.Fprintln(errw)
}
