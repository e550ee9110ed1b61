// Package procpoll is an example of a source of one's own, for [github.com/quark-linux/quark.New].
// It reads /proc at an interval and reports the processes that have come and gone since. Read it
// from [Open] on, beside engine/source.go: it claims kinds and fields (Capabilities), marks values
// that may be of another time as cached (describe), leaves unknown what it cannot see, as the
// status of an end, and counts what it missed (countMissed).
package procpoll
