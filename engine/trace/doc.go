// Package trace records the input of an engine, and replays it to an engine: for a test, with other
// options, or on another machine. [Writer] is an [engine.Recorder], [Reader] an [engine.Source]
// with the clock and the processes of the recording.
//
// A replay has the same raw events, read in the same portions, at the times of the recording. So it
// reports the same about every process, except where the live engine checked /proc after a gap. It
// may join other events, as the recording lacks the times of the calls of Get, and of Drain, which
// shortens the hold. In a replay an event is delivered the moment it is old enough. Live it waits
// for the next Get, and joins the events that were read by then.
//
// A trace is a line with the version, then blocks. A block has the length and the CRC-32C of its
// compressed data, 4 bytes each, low byte first, then the data, as zstd. The first block is the
// header, in JSON. Each other block has records, and can be decoded alone. A block of length 0 ends
// the trace.
//
// A record of an event is a list of columns, then a 0. Each column has its number and the
// difference of its value from the previous record; columns without a difference are omitted. The
// value of a text is its index among the block's texts. The next unused index is followed by the
// length and bytes of a new text. All numbers are varints. The columns begin at 4. A record that
// begins with 1 marks a read of the source, with the time since the last read; the events before
// the first such record are the processes at the start. A record that begins with 2 has the
// source's counters and ends a block. The last two counters, Unread and Blocked, are omitted if
// both are 0. A record that begins with 3 has a new offset of the clock.
package trace
