// Package record is the line protocol in which a guest reports: one JSON object a line, each with
// its own checksum, for the serial line that carries them also carries what a dying kernel or a
// stray process writes to it.
//
// The records of a run are, in this order: a Hello, one Plan for each run of a test program, a
// Start and a Result for each job of the plan, Blobs, and an End. What was started and has no
// Result, and what was planned and was not started, is known by that.
package record
