// Package procpoll is an example of a custom source, for [github.com/quark-linux/quark.New]. It
// reads /proc at an interval and reports processes that have started or ended since the last read.
// Read it from [Open] on, next to engine/source.go. It lists its kinds and fields (Capabilities),
// marks values that may have changed as cached (describe), leaves unavailable fields such as the
// exit status unknown, and counts missed events (countMissed).
package procpoll
