// Package audit is the source of the records that the kernel's audit makes of system calls. It adds
// rules of its own and reads what the kernel sends to every listener (AUDIT_NLGRP_READLOG), so that
// auditd and its rules stay as they are.
//
//	socket -> records -> queue of events by serial number -> RawEvent -> engine
//	                       ^ /proc, read on arrival
//
// What a record proves, and what stays unknown or bounded in the capability table:
//
//   - Serial numbers are given when calls end, without holes. The queue delivers in that order, and
//     a hole is a lost event. A child can act before the call that made it returns: its birth is
//     delivered first.
//   - The stamp is the wall clock when the call began, in milliseconds, behind by up to a tick. The
//     time of an event lies between the begin of the call and wallClock.slack after its end.
//   - SYSCALL has pid, parent, ids and login of the calling thread after the call. An exec leaves
//     one thread and a child begins with one, so they are the values of the process. A change of
//     user or group ids can be of any thread and is not reported.
//   - A fork returns a number of the caller's pid namespace, and clone3(2) hides its flags. A FORK
//     is reported only if /proc shows the child, or the caller in the initial namespace.
//   - exit_group ends the process, unless another thread executes. Its status is cached: a signal
//     right before it decides. exit(2) and signals prove no end, and are not reported.
//   - /proc is read after the call. Values that may be of a later process with the pid are dropped.
//   - The kernel counts records that it had no room for. They have no serial number.
//   - Rules of others can hide anything. They make the counts of Stats a lower bound.
package audit
