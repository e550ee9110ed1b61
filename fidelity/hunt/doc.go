// Package hunt looks for lies of the backends in lives that nobody has thought of: it generates
// scripts from a seed, performs them while queues listen, with faults of the monitor if wanted, and
// lets package score judge every event, field and order, and the sums of what was lost.
//
// [Run] hunts until the first lie, which it shrinks to the shortest script and the fewest faults
// with which it can be seen again. [Rerun] performs a script that was found.
package hunt
