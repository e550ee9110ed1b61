// Package fuzz searches for defects of the backends in generated workloads. It generates scripts
// from a seed, runs them while queues listen, optionally with faults of the monitor, and lets
// package score check every event, field, order, and the sums of lost events.
//
// [Run] ends with the first defect, which it shrinks to the shortest script with the fewest faults
// that still shows it. [Rerun] runs such a script again. A long run also samples the resource usage
// of a monitor that stays open, and [Grown] reports leaks.
package fuzz
