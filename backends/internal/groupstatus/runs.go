package groupstatus

import "github.com/quark-linux/quark/backends/internal/procfs"

// View is what Runs looks at in /proc: a [procfs.Reader].
type View interface {
	Tasks(pid uint32) []uint32
	Status(pid uint32) (procfs.Status, uint64, error)
	ThreadStatus(pid, tid uint32) (procfs.Status, uint64, error)
}

// Runs looks at a thread of a process, and reports whether nothing has made the process end, and
// whether it is seen to end. leaderDone is set if a leader of it has ended: another thread can have
// taken its place since.
//
// Who ends a whole process leaves SIGKILL pending in each other thread, until that has begun to end
// itself, which its flags show. So a thread that sleeps, to be woken by signals, and has neither,
// is proof. A thread that runs is none: it can be anywhere between the first step of its end and
// the flags for as long as it has no CPU. A thread that a tracer holds can have begun to end.
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
