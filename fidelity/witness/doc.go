// Package witness records what quark's queues deliver while scenarios run, so that
// package score can hold it against the truth.
//
// A [Listener] reads one queue. A [Witness] is one backend: a queue that reports each
// event and each thread by itself, and one that joins events as users get them by
// default. [Perform] runs a scenario while witnesses listen, and [Settle] waits until
// they have delivered everything.
package witness
