// Package fuzz searches for defects of the backends in generated workloads: it generates scripts
// from a seed, performs them while queues listen, with faults of the monitor if wanted, and lets
// package score check every event, field and order, and the sums of lost events.
//
// [Run] ends with the first defect, which it shrinks to the shortest script and the fewest faults
// that still show it. [Rerun] performs such a script again. A long run also samples what a monitor
// that stays open uses, and [Grown] reports leaks.
package fuzz
