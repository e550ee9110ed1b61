package groupstatus

import "github.com/quark-linux/quark/backends/internal/procfs"

// View is the part of [procfs.Reader] that Runs uses.
type View interface {
	Tasks(pid uint32) []uint32
	Status(pid uint32) (procfs.Status, uint64, error)
	ThreadStatus(pid, tid uint32) (procfs.Status, uint64, error)
}

// Runs reads the state of the threads of a process. alive means that the process had not begun to
// exit when Runs was called. ending means that the process is exiting. The caller sets leaderDone
// if the leader has exited: another thread may have become the leader.
//
// When a process exits, each thread gets SIGKILL, and then a flag when the thread begins to exit.
// So a thread in interruptible sleep, with neither SIGKILL nor the flag, proves that the process is
// alive. A running thread is no proof: the thread may wait for a CPU before it sets the flag. A
// thread that a tracer stops may have begun to exit.
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
