// Package trace records the input of an engine, and gives it to an engine again: for a test, for
// other options, on another machine. [Writer] is an [engine.Recorder], [Reader] an [engine.Source]
// with the clock and the processes of the recording.
//
// A replay promises the same raw events, read in the same portions, at the times of the recording,
// so that the same is reported of every process, except where the live engine looked at /proc after
// a gap. It does not promise that the same events join: the recording lacks the times of the calls
// of the live engine, and of Drain, which holds events for less. In a replay an event is delivered
// the moment it is old enough. Live it waits for the next Get, and joins the events that were read
// by then.
//
// A trace is a line with the version, then blocks: the length of the compressed block and
// its CRC-32C, 4 bytes each, low byte first, then the block, as zstd. The first block is the
// header, in JSON. Each of the others has records, and can be decoded alone. A block of length 0
// ends the trace.
//
// A record of an event is a list of columns, each with its number and how much its value differs
// from the record before, then a 0. Columns without a difference are left out. The value of a text
// is its index among the block's texts; the next unused index brings a new one: its length and
// bytes. All numbers are varints. The columns begin at 4. A record that begins with 1 marks a
// reading of the source, with the time since the last one; the records before the first of these
// are the processes of the start. One with 2 has the source's counters and ends a block. The last
// two, Unread and Blocked, are left out if both are 0. One with 3 has a new offset of the clock.
package trace
