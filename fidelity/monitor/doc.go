// Package monitor runs programs of others that watch processes, and presents what they print as
// a queue, so that package score judges it as it judges quark's backends.
//
// A [Monitor] is how a program is run and a [Decoder] that turns its lines into events. Its
// capability table declares what its output can say. There is no engine behind the queue: an
// event says what was printed and nothing else. [Start] runs a monitor below a keeper process
// (package keeper), and returns when an event of a process that was started for that has come.
// [ReadFormat] makes a Monitor of any command that prints lines of JSON.
package monitor
