// Package tracepoint is the source of process events for kernels without kprobes and callers
// without eBPF: the tracepoints of the scheduler and of tasks, read with perf_event_open(2) alone.
//
// The records are few and short: who forked whom, which path was executed, which thread ended. New
// names come as PERF_RECORD_COMM, which tells those that an execve sets from others and whose
// thread it is; the tracepoint task_rename does not tell the first, and from Linux 6.16 to 6.18 not
// the second. The rest is read from /proc, and left unknown where that can't be shown to be of the
// same process.
//
//	rings -> records -> queue, in order of time -> groups -> events -> engine
//	                      ^ /proc, read at once
//
// An event waits in the queue until all that may change what it says has come: records of other
// CPUs, and the birth of another process with its pid. What leaves the queue is final.
package tracepoint
