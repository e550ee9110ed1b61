// Package otlp sends events to an OpenTelemetry collector, as log records by OTLP over HTTP.
//
// It uses the SDK of OpenTelemetry, with a processor of its own between the SDK's logger and its
// exporter: one that never blocks, bounds what waits, goes on trying while the target is away, and
// counts what is dropped by cause. Names of attributes are those of the semantic conventions where
// there are such; all others begin with "quark.". What quark does not know has no attribute, and
// quark.unknown names it; quark.carried names what may have changed since it was learnt.
package otlp
