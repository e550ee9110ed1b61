package groupstatus

import "golang.org/x/sys/unix"

// Endings collects the wait statuses of threads that exited since their group was last known to be
// alive. It derives the wait status of the group from them.
//
// The kernel does not report the status of the group. It sets the status like this:
//
//   - exit_group(2) and fatal signals set it. All threads that have not started to exit get the
//     same status.
//   - If all threads call exit(2), it is the status of the last thread to start its exit (since
//     Linux 6.0), or of the leader (before).
//
// The order of messages does not show the order in which threads started to exit: a tracer, or much
// memory to free, can delay a thread for any time. So the status is certain only in these cases:
//
//   - All these threads exited with the same status.
//   - A thread exited with a status that only a signal to the whole group leaves. But SIGKILL
//     during a core dump sets the group's status once more, and the dumping thread exits with that
//     status.
type Endings struct {
	N      uint32
	Dumper uint32 // the thread that dumped core, 0 if none did
	status int32  // of the first exit
	mixed  bool   // a later exit had another status
	Fatal  int32  // the status of a signal to the whole group, or 0
	killed bool   // a thread exited by SIGKILL
}

// Add adds the exit of a thread with a wait status.
func (e *Endings) Add(tid uint32, status int32) {
	if e.N++; e.N == 1 {
		e.status = status
	}
	e.mixed = e.mixed || status != e.status
	e.killed = e.killed || status == int32(unix.SIGKILL)
	if endsGroup(status) && e.Fatal&CoreDumped == 0 {
		e.Fatal = status
	}
	if status&CoreDumped != 0 {
		e.Dumper = tid
	}
}

// CoreDumped is the bit of a wait status for a core dump. The kernel sets the bit when the dump is
// done, so only the dumping thread exits with the bit.
const CoreDumped = 0x80

// endsGroup reports whether the wait status is of a signal that ended the whole group. Seccomp ends
// a single thread by SIGKILL (strict mode) or SIGSYS (KILL_THREAD).
func endsGroup(status int32) bool {
	return status&0x7f != 0 && status != int32(unix.SIGKILL) && status != KilledThread
}

// KilledThread is the status of a thread that seccomp's KILL_THREAD ends. Before Linux 5.16 such a
// thread dumps core if it is the last thread. Then only the status of the group has CoreDumped.
const KilledThread = int32(unix.SIGSYS)

// Verdict returns the wait status of a group after all its threads have exited, and whether the
// status is certain. leader is the status of the leader. last6 is set on Linux 6.0 and later.
func (e *Endings) Verdict(leader int32, last6 bool) (status int32, known bool) {
	switch {
	case e.Fatal != 0:
		return e.Fatal, !e.killed || Certain(e.Fatal)
	case e.N == 0 || e.mixed:
		return 0, false
	}
	return e.status, last6 || e.status == leader
}

// coreSignals are the signals that dump core by default: signal(7).
const coreSignals = 1<<unix.SIGQUIT | 1<<unix.SIGILL | 1<<unix.SIGTRAP | 1<<unix.SIGABRT | 1<<unix.SIGBUS | 1<<unix.SIGFPE |
	1<<unix.SIGSEGV | 1<<unix.SIGXCPU | 1<<unix.SIGXFSZ | 1<<unix.SIGSYS

// Certain reports whether a thread's wait status is also its process's: a signal to the whole group
// caused the status, and no other thread can have dumped core.
func Certain(status int32) bool {
	return endsGroup(status) && (status&CoreDumped != 0 || !Dumps(status))
}

// Dumps reports whether the wait status is of a signal that dumps core by default.
func Dumps(status int32) bool { return coreSignals>>(status&0x7f)&1 != 0 }
