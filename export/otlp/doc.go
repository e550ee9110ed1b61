// Package otlp sends events to an OpenTelemetry collector, as log records by OTLP over HTTP.
//
// An Exporter converts each event to a record for the batch processor and the exporter of
// OpenTelemetry's SDK. It also counts the outcome of each record, limits the queued records, and
// retries while the target is unavailable. Attributes have the names of the semantic conventions if
// those exist; other names begin with "quark.". An unknown value has no attribute, but is listed in
// quark.unknown. quark.cached lists values that may have changed since they were read.
package otlp
