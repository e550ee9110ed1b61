// Package procfs reads processes from /proc into an [engine.RawEvent].
//
// A [Reader] makes no allocations per process, reads only the files that it needs for the requested
// fields, and keeps working after chroot and setuid, because it opens everything relative to a
// descriptor of /proc. The fields of a file that cannot be read stay unknown. A Reader opens all
// files of a process through one descriptor of /proc/PID. The kernel ties the descriptor to the
// process, so an event never mixes two processes with the same pid.
package procfs
