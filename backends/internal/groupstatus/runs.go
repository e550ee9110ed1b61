package groupstatus

import "github.com/quark-linux/quark/backends/internal/procfs"

// View is the part of a [procfs.Reader] that Runs uses.
type View interface {
	Tasks(pid uint32) []uint32
	Status(pid uint32) (procfs.Status, uint64, error)
	ThreadStatus(pid, tid uint32) (procfs.Status, uint64, error)
}

// Runs reads the state of a thread of a process. alive reports that no event has made the process
// end, ending that it is ending. leaderDone is set if a leader of it has ended: another thread can
// have taken its place since.
//
// The end of a whole process leaves SIGKILL pending in each other thread until that thread begins
// to end, which its flags show. So a thread in interruptible sleep with neither proves that the
// process is alive. A running thread is no proof: without a CPU it can stay between the first step
// of its end and the flags for any time. A thread that a tracer holds can have begun to end.
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
