// Package exitsnoop tells how a process ended, whoever its parent is, and even
// if nobody looked at that time. It is made for supervisors and container runtimes that are
// restarted while what they watch over lives on, and dies.
//
// An eBPF program on the raw tracepoint sched_process_exit records the wait
// status of each traced thread group in a map. Program and maps are pinned in a BPF file
// system by [EnsureRunning], so they need no process to stay; any process can later
// open them with [NewStore] and ask. [NewStoreFromAttach] is the same without pins, for the
// life of a process.
//
//	err := exitsnoop.EnsureRunning("/run/supervisor")
//	s, err := exitsnoop.NewStore("/run/supervisor")
//	err = s.Trace(pid, &exitsnoop.TaskInfo{TraceID: 42})
//	// ... here the supervisor may crash and start again ...
//	status, err := s.Wait(ctx, 42)
//	fmt.Println(status.WaitStatus().ExitStatus())
//	err = s.DeleteExitedEvent(42)
//
// # What is guaranteed
//
//	Trace returned nil          the end is recorded when it comes, or is already
//	a dying process             Trace returns ErrNoProcess, or nil and there is a status; nothing between
//	maps are full               Trace returns ErrFull: the room for an exit is made before it happens
//	the status                  that of wait(2): the group's, raw, recorded once its last thread ends
//	pid reuse                   start time and pid namespace must be those seen by Trace
//	restart of the caller       nothing is lost while the link is pinned
//	the program was removed     EnsureRunning, Collect and Wait find what has ended meanwhile: ErrLost, Stats.Unseen
//	the record cannot be stored ErrLost for that trace id, and Stats.Lost counts it
//	the program was skipped     its twin records the exit; if that was skipped too: ErrLost, and Stats.Unseen
//	order                       the record is there before a pidfd, or wait(2), tells of the end
//	reboot                      all is gone; start times tell old pids from new ones
//
// What is not: it cannot tell of processes that were not traced, and who may write
// to the maps (CAP_BPF, or root) may write anything.
//
// The kernel skips a program that is in flight on the CPU, which can be where raw
// tracepoints are preemptible: with PREEMPT_RT, and from Linux 7.0 on. So there are two of it.
//
// # Cost
//
// Each exit of a process that is not traced takes less than 1 us more: the two programs
// look at one counter, that of the traced pids with the same remainder. The benchmarks
// Untraced, Wait and Trace measure it.
//
// # Waiting
//
// [Store.Wait] and [Store.Events] wait for pidfds, not for a ring buffer. A ring
// has one reader, so a pinned one could not serve two processes, and it can
// overflow. A pidfd is made readable by the kernel after the program has run
// (do_exit passes the tracepoint before exit_notify), so when it is, the record is in
// the map or never will be. The price is a descriptor for each process waited for, and
// that Events does not see what other processes begin to trace while it runs.
//
// # Other ways
//
//	                        not a child  watcher restarts  status after     loss
//	exitsnoop               yes          yes               until deleted    none; told if it happens
//	pidfd, P_PIDFD          only poll    no                until reaped     none, for the parent only
//	PIDFD_INFO_EXIT (6.15)  yes          no                while it is held none
//	proc connector          yes          no                at once only     socket overflow; per thread
//	audit                   yes          log files         in the log       backlog limit, rate limit
//
// waitid(P_PIDFD) gives the status to the parent only; others can learn from a
// pidfd when a process ends, not how, before Linux 6.15. The proc connector reports
// the exit of each thread with that thread's own status, from which the group's cannot
// always be told before Linux 6.0, and to those who listen at that time. Audit
// sees exit_group(2) as a system call, not a death by signal (there is ANOM_ABEND for some),
// and costs something for every system call.
//
// # Versions
//
// The layout of the maps outlives the programs that use it, so it has a version,
// and each version a directory of its own. EnsureRunning takes over what an older one knows
// (version 0 is embedshim's pkg/exitsnoop), ends it, and says what it could not: those
// traces are ErrLost. To a newer one it says ErrNewerVersion.
//
// It needs Linux 5.8 with BTF, or BTF in [Options], and CAP_SYS_ADMIN to mount
// a BPF file system and to verify what is pinned.
package exitsnoop
