// Package groupstatus derives the wait status of a thread group from its threads' statuses. It is
// for sources to which the kernel reports the exit of each thread but not the exit of the group.
package groupstatus
