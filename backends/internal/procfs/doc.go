// Package procfs reads what /proc says of a process into an [engine.RawEvent].
//
// A [Reader] costs no allocation per process, reads only the pieces it is asked
// for, and keeps working after chroot and setuid, because it opens everything
// relative to a descriptor of /proc. A piece that cannot be had leaves its
// fields unknown. All pieces are read through one descriptor of /proc/PID, which
// the kernel ties to the process itself and not to its number: they are never of
// two processes, even when the pid is used again half way.
package procfs
