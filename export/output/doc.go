// Package output writes lines of events, such as documents of package ecs, to where logs go: files
// that are rotated by size and time, FIFOs, the journal of systemd by its native protocol, and
// syslog by RFC 5424.
//
// Put never waits. What waits is bounded, a target that fails is tried again, and what is dropped
// is counted by cause; a line that says so follows. A FIFO, the journal and syslog confirm nothing:
// delivered is what the kernel has taken for them.
package output
