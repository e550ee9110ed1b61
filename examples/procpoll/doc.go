// Package procpoll is an example of a custom source, for [github.com/quark-linux/quark.New]. It
// reads /proc at an interval and reports processes that have started or ended since the last read.
// Begin with [Open], and compare engine/source.go. Capabilities lists the reported kinds and
// fields, describe marks values that may have changed as cached, and countMissed counts missed
// events. Unavailable fields, such as the exit status, stay unknown.
package procpoll
