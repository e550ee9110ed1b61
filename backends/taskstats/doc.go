// Package taskstats is the source of ends alone: the exit listener of the kernel's taskstats, which
// needs CONFIG_TASKSTATS and CAP_NET_ADMIN. It reports each end with the wait status, the parent
// and what was used: CPU time, the most memory, I/O.
//
// The kernel makes a record for each thread that ends, on the CPU where it runs, and numbers the
// records of a CPU. So the source has a socket for each CPU, and loss is known exactly. A record
// has no stamp: an end has the time when its record was received, which is later than the end, by
// as long as nobody read. From Linux 5.19 on a record tells its process, and whether it is of the
// last thread; before, not all ends of processes can be told from those of threads, and those that
// can't are left out.
//
// Nothing is read from /proc with an event. Of a process in which threads have ended by themselves
// it is looked at whether it still runs, as that decides about its wait status: see groups.
package taskstats
