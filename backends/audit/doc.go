// Package audit is the source of the records that the kernel's audit makes of system calls: execs
// with their arguments, forks, ends by exit(2) and exit_group(2), changes of ids, each with its
// success, the ids and the login of who made it. It adds rules of its own and reads what the kernel
// sends to all who listen (AUDIT_NLGRP_READLOG), so that auditd and its rules stay as they are.
//
//	socket -> records -> event of a serial number -> queue, by stamp -> RawEvent -> engine
//	                                   ^ /proc, read at once
//
// A record has the wall clock, read at the begin of the system call from a clock that is behind by
// up to a tick, in milliseconds, and no CPU. The serial number is given at the end of the call. So
// an event is put in order by its stamp, then by its number, and a fork before what its child does:
// calls of which one ended before the other began are in order. The time that an event gets is two
// ticks and a millisecond and a half after its stamp, or that of its receipt if that is earlier: no
// earlier than the call began, as far as timer interrupts come in time (a busy emulated machine has
// them up to 300 ms late), and later than the event by no more than that. A fork whose call took so
// long that younger events were told meanwhile has the time of the latest of these.
//
// What the kernel does not record is not told: death by a signal, threads, what processes do that
// are older than the first enabling of audit. The number that a fork returns means something in the
// caller's pid namespace alone, and nothing tells whether clone3(2) made a thread: a FORK is told
// only if /proc shows that, by its parent or by the child.
package audit
