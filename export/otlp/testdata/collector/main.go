// Command collector is an OpenTelemetry Collector for a test: its OTLP receiver, and an exporter
// that writes each log record as a line of JSON to a file before the receiver answers. So every
// acknowledged record is in the file, even if the collector is killed.
//
//	collector --config FILE
package main

import (
	"context"
	"fmt"
	"os"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
)

func main() {
	cmd := otelcol.NewCommand(otelcol.CollectorSettings{
		BuildInfo: component.BuildInfo{Command: "collector", Version: "test"},
		Factories: factories,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			DefaultScheme:     "file",
			ProviderFactories: []confmap.ProviderFactory{fileprovider.NewFactory()},
		}},
	})
	if err := cmd.Execute(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func factories() (f otelcol.Factories, err error) {
	if f.Receivers, err = otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory()); err != nil {
		return f, err
	}
	f.Exporters, err = otelcol.MakeFactoryMap[exporter.Factory](exporter.NewFactory(component.MustNewType("lines"),
		func() component.Config { return new(config) }, exporter.WithLogs(newLines, component.StabilityLevelDevelopment)))
	f.Telemetry = otelconftelemetry.NewFactory()
	return f, err
}

type config struct {
	Path string `mapstructure:"path"`
}

// lines is the exporter.
type lines struct {
	*config
	file *os.File
}

func newLines(_ context.Context, _ exporter.Settings, c component.Config) (exporter.Logs, error) {
	return &lines{config: c.(*config)}, nil
}

func (l *lines) Start(context.Context, component.Host) (err error) {
	l.file, err = os.OpenFile(l.Path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	return err
}

func (l *lines) Shutdown(context.Context) error { return l.file.Close() }

func (l *lines) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

func (l *lines) ConsumeLogs(_ context.Context, logs plog.Logs) error {
	b, err := new(plog.JSONMarshaler).MarshalLogs(logs)
	if err != nil {
		return err
	}
	_, err = l.file.Write(append(b, '\n')) // one write, so that a line is never partial
	return err
}
