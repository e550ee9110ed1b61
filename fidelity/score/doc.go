// Package score holds what a backend delivered against what really happened.
//
// All figures are counts, of one scenario and one backend:
//
// Completeness is Seen of Truth: events that happened, of the kinds that the
// capability table says are reported, and those of them that were delivered.
// Optional events, and those from before the queue was open, count only if they
// were delivered. Lost are events that are missing and happened in a gap that was reported, so
// that they may have been lost. Nothing is expected of the time after the queue's orderly end
// began.
//
// Precision: a Phantom is a delivered event of one of the scenario's processes, or
// of a child of one, that did not happen; a Duplicate one that happened and was
// delivered before.
//
// Order: an Inversion is an event that was delivered after another one that it
// happened before: by the clock readings around both, or as an earlier act of the
// same process. Of a backend whose clock is coarse the readings have to be as far apart as that.
//
// Each field of each delivered event has a verdict. Right: what the process was right
// after the event. Carried: what it was at another time, where the event marks the field
// as carried: earlier in its life, before its birth for the image that it inherits, or,
// where the field is read from /proc, later. Truncated: the beginning of a text, or the
// end of a path, flagged so, and not less than the table says is known in any case.
// Unknown: flagged so, where the table says that it can happen: the field has no source or
// comes from /proc, or this event does not bring it. Unexplained: unknown where it should
// be known, or carried where the backend always reports it. Wrong is anything else, and
// counts worst: users believe it. Missed are values, right or not, that are carried though
// the table says that this event brings them from the kernel. A field of which the
// scenario does not tell the truth has no verdict. The stamp of an event and the status of
// an exit are scored in the same way: Stamp is right between the readings around the
// event.
//
// Aggregation: Joined are processes whose events came as the documented rules want them, Unjoined
// those of which they did not. Slow processes, which lived for more than half the hold time less
// the error of the backend's clock, are not scored by the rules, as they may be delivered in parts,
// nor are those that lived in a gap. In any case an event that is missing from the parts of the
// joined events is Unjoined, and the fields of a joined event are scored as those of its last part.
//
// Threads: each thread that a scenario tells of has one FORK and one EXIT, except that
// the end of the last one may be reported as the end of the process only; they count as
// events. From a queue that was not asked for threads each is a Phantom.
//
// Table counts deliveries at which the queue's table had another process under the pid
// or the identity than the event, or at which the event had another parent at birth or an
// end too early; leaders of sessions and groups that are other processes, or are not found though
// they live and were seen to be forked; leaders and ancestors that are printed as ended and lived
// when the event began; and processes that were not found after their end. The
// parts of a joined event count as stamps that are wrong if they are not what happened at their
// times.
//
// Delays are the times from the stamp of an event to its delivery, less the hold
// time, in nanoseconds.
package score
