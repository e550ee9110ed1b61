// Package procfs reads processes from /proc into an [engine.RawEvent].
//
// A [Reader] makes no allocations per process, reads only the files that it needs for the requested
// fields, and keeps working after chroot and setuid, because it opens everything relative to a
// descriptor of /proc. The fields of a file that can't be read stay unknown. All files of a process
// are read through one descriptor of /proc/PID, which the kernel ties to the process and not to its
// number: they never mix two processes, even if the pid is reused meanwhile.
package procfs
