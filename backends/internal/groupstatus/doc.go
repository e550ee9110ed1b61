// Package groupstatus derives the wait status of a thread group from its threads' statuses, for
// sources to which the kernel reports the end of each thread but not the end of the group.
package groupstatus
