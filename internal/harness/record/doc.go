// Package record implements the line protocol in which a guest reports to its host: one JSON object
// per line. Each has a checksum, because a crashing kernel or a stray process may write to the same
// serial line.
//
// The records of a run are, in this order: a Hello, one Plan for each run of a test program, a
// Start and a Result for each job of the plan, Blobs, and an End. If a job has a Start and no
// Result, the guest crashed or hung during this job; later jobs have no Start.
package record
