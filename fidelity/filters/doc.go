// Package filters judges filters by lives whose truth is known.
//
// A queue with a filter watches the lives, and records what its source reports. [Judge] replays the
// recording without a filter: package score says that what is known and not carried in this replay
// is true. Then it replays the recording with filters about every field that they can compare, each
// with a value that some events have and others do not. Delivered has to be exactly what has the
// value, and what of which the value is unknown. The rest has to be counted. With a filter that
// lets nothing pass the process table has to be the same as without any.
package filters
