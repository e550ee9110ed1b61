// Package procpoll is an example of a custom source, for [github.com/quark-linux/quark.New]. It
// reads /proc at an interval and reports processes that have started and ended since. Read it from
// [Open] on, beside engine/source.go. It lists its kinds and fields (Capabilities), marks values
// that may be of another time as cached (describe), leaves fields that it cannot know unknown, such
// as the exit status, and counts missed events (countMissed).
package procpoll
