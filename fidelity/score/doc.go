// Package score compares the events that a backend delivered with the ground truth.
//
// All figures are counts for one scenario and one backend:
//
// Completeness is Seen of Truth. Truth counts the events that happened, of the kinds that the
// capability table lists as reported. Seen counts the delivered ones. Optional events, and events
// from before the opening of the queue, count only if they were delivered. Lost counts missing
// events that happened within a reported gap. Events after the start of the queue's orderly end are
// not expected.
//
// Precision: a Phantom is a delivered event of a process of the scenario, or of a child of one,
// that did not happen. A Duplicate is an event that was delivered twice.
//
// Order: an Inversion is an event that was delivered after a later one. The order of two events is
// known from their clock readings, or because one process did both. If the backend's clock is
// coarse, the readings must differ by more than its error.
//
// The scorer puts each field of each delivered event into one class:
//
//   - Right: the value after the event.
//   - Cached: a value of another time that the event marks as cached. It is an earlier value
//     of the process, an inherited value of its creator or, for a field read from /proc, a
//     later value.
//   - Truncated: the start of a text or the end of a path, marked as truncated, and at least as
//     long as the capability table promises.
//   - Unknown: marked as unknown, as the table allows: the field has no source, comes from
//     /proc, or does not come with this event.
//   - Unexplained: unknown though it should be known, or cached though the backend always
//     reports it.
//   - Wrong: anything else. This is the worst class, as users believe the value.
//
// Missed also counts each cached value, right or not, if according to the table the kernel reports
// the field with this event. A field without ground truth is not scored. The time stamp of an event
// and the exit status are scored in the same way: a stamp is Right if it lies between the clock
// readings around the event.
//
// Aggregation: Joined counts processes whose events arrived as the documented rules require, and
// Unjoined the others. Two kinds of processes are not scored by the rules: processes that ran for
// more than half the hold time minus the backend's clock error, as they may be delivered in parts,
// and processes that ran within a gap. An event that is missing from the parts of joined events
// always counts as Unjoined. The fields of a joined event are scored as the fields of its last
// part.
//
// Threads: each thread that a scenario records has one FORK and one EXIT. The EXIT of a thread that
// executes may be missing. If the queue was opened without threads, each event of a thread is a
// Phantom.
//
// Table counts mismatches of the queue's process table at delivery: another process under the pid
// or the identity, another parent at birth, or an end that is too early; a session or group leader
// that is another process, or is missing though it is alive and its fork was reported; a leader or
// ancestor that is printed as ended but lived when the event began; and a process that was not
// found after its end. A wrong part of a joined event counts as a wrong stamp.
//
// Delays are the times from the stamp of an event to its delivery, minus the hold time, in
// nanoseconds.
package score
