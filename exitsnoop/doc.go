// Package exitsnoop records how processes end: any process, not only children of the caller, even
// while the caller does not run. It is made for supervisors and container runtimes, which may
// restart while the processes that they supervise continue or end.
//
// An eBPF program on the raw tracepoint sched_process_exit stores the wait status of each traced
// thread group in a map. [EnsureRunning] pins the program and its maps in a BPF file system, so
// that they outlive the process. Later any process can open them with [NewStore].
// [NewStoreFromAttach] does the same without pins, for the life of one process.
//
//	err := exitsnoop.EnsureRunning("/run/supervisor")
//	s, err := exitsnoop.NewStore("/run/supervisor")
//	err = s.Trace(pid, &exitsnoop.TaskInfo{TraceID: 42})
//	// ... here the supervisor may crash and start again ...
//	status, err := s.Wait(ctx, 42)
//	fmt.Println(status.WaitStatus().ExitStatus())
//	err = s.DeleteExitedEvent(42)
//
// [Store.TraceTree] traces a process and its descendants: a second program, on the raw tracepoint
// sched_process_fork, traces each before it can run. [Store.Events] yields their exits.
//
//	id, err := s.TraceTree(pid, exitsnoop.TreeOptions{})
//	for exit, err := range s.Events(ctx, id) {
//		fmt.Println(exit.Pid, exit.WaitStatus(), err)
//		s.DeleteExitedEvent(exit.TraceID)
//	}
//
// [Start] starts a command and traces its tree, with neither pins nor a race:
//
//	c, err := exitsnoop.Start(exec.Command("make", "-j4"))
//	for exit, err := range c.Exits(ctx) {
//		fmt.Println(exit.Pid, exit.WaitStatus(), err)
//	}
//	used, err := c.Wait() // CPU time and peak memory
//
// # Guarantees
//
//	Trace returned nil       the exit will be recorded, or is already
//	the process is exiting   Trace returns ErrNoProcess, or nil and the exit is recorded
//	a map is full            Trace returns ErrFull: it reserves the room for the exit first
//	TraceTree returned nil   all forks of the process and its descendants are traced, or counted
//	                         in Stats.Untraced if a map was full
//	the status               the raw status of the thread group, when its last thread has ended
//	a pid is reused          start time and pid namespace must match those that Trace has read
//	the caller restarts      no exit is lost while the link is pinned
//	the program was removed  EnsureRunning, Collect, Wait find the exits since: ErrLost, Unseen
//	the exit is not stored   ErrLost for its trace id, counted in Stats.Lost
//	the program was skipped  its twin records the exit; if it was skipped too: ErrLost, Unseen
//	order                    the record is stored before a pidfd or wait(2) reports the exit
//	reboot                   all state is gone; start times distinguish old pids from new ones
//
// Untraced processes are not recorded. Root, or a process with CAP_BPF, can write to the maps.
//
// Where raw tracepoints can be preempted (PREEMPT_RT, and Linux 7.0 or later), the kernel skips a
// program that already runs on the CPU. So there are two programs for forks, and two for exits. The
// second program for forks cannot be preempted. From Linux 7.0 on, the second program for exits
// cannot be preempted either.
//
// # Cost
//
// The fork and the exit of an untraced process each take about 1 us longer: each program looks up
// the pid in a hash map. The benchmarks Untraced, Wait and Trace measure the costs.
//
// # Waiting
//
// [Store.Wait] and [Store.Events] wait for pidfds, not for a ring buffer. A ring buffer can
// overflow, and it has one reader, so a pinned one could not serve two processes. The kernel makes
// a pidfd readable after the program has run (do_exit passes the tracepoint before exit_notify), so
// the record is in the map then, or never will be. The price is a descriptor for each process.
// Events also misses traces that other processes begin while it runs. While Events waits for a
// tree, it reads a counter every 50 ms, because no descriptor reports forks.
//
// # Alternatives
//
//	                       not a child restarts  status after  loss
//	exitsnoop              yes         yes       until deleted none, or reported
//	pidfd, P_PIDFD         only poll   no        until reaped  none, for the parent only
//	PIDFD_INFO_EXIT (6.15) yes         no        while open    none
//	proc connector         yes         no        at once only  socket overflow; per thread
//	audit                  yes         log files in the log    backlog limit, rate limit
//
// waitid(P_PIDFD) gives the status to the parent only. Before Linux 6.15 a pidfd shows others when
// a process ends, but not how. The proc connector reports the exit and status of each thread, only
// to current listeners; before Linux 6.0 the status of the group can differ. Audit reports
// exit_group(2) as a system call, an end by a signal only for some signals (ANOM_ABEND), and slows
// down every system call.
//
// # Versions
//
// The pinned maps outlive the program that created them, so their layout has a version, and each
// version has a directory. The error is ErrNewerVersion if a newer version is there. EnsureRunning
// adds the maps and programs for trees to pins that lack them, and the running programs continue.
// Pins of another program, such as embedshim's pkg/exitsnoop, are ErrForeign.
//
// exitsnoop needs Linux 5.8 with BTF, or BTF in [Options], and CAP_SYS_ADMIN to mount a BPF file
// system and to verify the pins. With PREEMPT_RT pins need Linux 6.5.
package exitsnoop
