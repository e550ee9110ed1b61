package groupstatus

import "github.com/quark-linux/quark/backends/internal/procfs"

// View is the part of [procfs.Reader] that Runs uses.
type View interface {
	Tasks(pid uint32) []uint32
	Status(pid uint32) (procfs.Status, uint64, error)
	ThreadStatus(pid, tid uint32) (procfs.Status, uint64, error)
}

// Runs reads the state of the threads of a process. alive reports that no event before the read has
// made the process exit. ending reports that the process is exiting. leaderDone is set if its
// leader has exited: another thread may have taken the leader's place.
//
// When a whole process exits, each other thread has SIGKILL pending until the thread starts to
// exit, which its flags show. So a thread in interruptible sleep without either proves that the
// process is alive. A running thread is no proof: without a CPU it can stay for any time between
// the first step of its exit and the flags. A thread that a tracer stops may have started to exit.
func Runs(v View, pid uint32, leaderDone bool) (alive, ending bool) {
	st, _, err := v.Status(pid)
	if err == nil && leaderDone && (st.Zombie() || st.Ending) {
		err = procfs.ErrVanished
		for _, tid := range v.Tasks(pid) {
			if tid != pid {
				st, _, err = v.ThreadStatus(pid, tid)
				break
			}
		}
	}
	if err != nil || st.Zombie() || st.Ending {
		return false, true
	}
	return st.State == 'S', false
}
