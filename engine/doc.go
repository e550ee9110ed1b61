// Package engine turns the raw events of one kernel source into events for users: ordered by time
// over all CPUs, with related events joined (fork, exec and exit of a short process are one event)
// and with all known values of the process.
//
// A [Source] fills a [Buffer] with [RawEvent] values; [Engine.Get] takes the
// oldest one that is old enough, joins the events of the same process that
// follow it, applies them to the process table and hands out one [Event].
// Everything happens inside Get: there is no goroutine, no lock and no kernel
// access in this package, so it builds and runs on any system.
package engine
