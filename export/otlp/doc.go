// Package otlp sends events to an OpenTelemetry collector, as log records by OTLP over HTTP.
//
// An Exporter makes a record of each event and hands it to OpenTelemetry's SDK: its batch processor
// and its exporter. Around these it accounts for each record, bounds the waiting ones, and retries
// while the target is away. Attributes have the names of the semantic conventions where such exist;
// all others begin with "quark.". An unknown value has no attribute, and quark.unknown names it;
// quark.cached names values that may have changed since they were read.
package otlp
