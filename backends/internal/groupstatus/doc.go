// Package groupstatus tells the wait status of a thread group from those of its threads, for
// sources to which the kernel reports the end of each thread and not that of the group.
package groupstatus
