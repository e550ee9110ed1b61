// Package otlp sends events to an OpenTelemetry collector, as log records by OTLP over HTTP.
//
// An Exporter makes a record of each event and hands it to OpenTelemetry's SDK: its batch processor
// and its exporter. Around these it accounts for each record, bounds what waits, and tries again
// while the target is away. Names of attributes are those of the semantic conventions where there
// are such; all others begin with "quark.". What quark does not know has no attribute, and
// quark.unknown names it; quark.cached names what may have changed since it was learnt.
package otlp
