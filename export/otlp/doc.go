// Package otlp sends events to an OpenTelemetry collector, as log records by OTLP over HTTP.
//
// The SDK of OpenTelemetry makes the resource and the requests. The records in them are quark's: an
// event is encoded when it is exported, at a third of the cost of the SDK's types, and waits as
// what will be sent. Export never blocks; what waits is bounded, and is tried again while the
// target is away; what is dropped is counted by cause. Names of attributes are those of the
// semantic conventions where there are such; all others begin with "quark.". What quark does not
// know has no attribute, and quark.unknown names it; quark.carried names what may have changed
// since it was learnt.
package otlp
