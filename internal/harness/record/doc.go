// Package record is the line protocol in which a guest reports to its host: one JSON object a line,
// each with a checksum, as a dying kernel or a stray process may write to the same serial line.
//
// The records of a run are, in this order: a Hello, one Plan for each run of a test program, a
// Start and a Result for each job of the plan, Blobs, and an End. A job with a Start and no Result
// is the one at which the guest crashed or hung; the jobs after it have no Start.
package record
