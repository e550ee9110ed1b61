// Package cputime divides the run time of a process into user and system time, as the kernel does
// for getrusage(2), times(2) and /proc/PID/stat.
//
// At each tick the kernel adds to utime or stime of the running task, depending on the task's mode.
// In most configurations it adds a whole tick. The scheduler counts the run time in nanoseconds,
// but without the mode. So the kernel divides the run time in the ratio of utime to stime.
package cputime

import "math/bits"

// Times are the kernel's counts for a thread group, in nanoseconds.
type Times struct {
	Run          uint64 // sum_exec_runtime
	User, System uint64 // utime and stime
	// ShownUser and ShownSystem are the times last returned for the group,
	// signal->prev_cputime. Neither ever decreases.
	ShownUser, ShownSystem uint64
}

// Divide does the calculation of cputime_adjust in kernel/sched/cputime.c.
func (t Times) Divide() (user, system uint64) {
	if t.ShownUser+t.ShownSystem >= t.Run {
		return t.ShownUser, t.ShownSystem
	}
	switch {
	case t.System == 0:
	case t.User == 0:
		system = t.Run
	default:
		hi, lo := bits.Mul64(t.System, t.Run)
		if sum := t.System + t.User; hi < sum {
			system, _ = bits.Div64(hi, lo, sum)
		}
	}
	system = min(max(system, t.ShownSystem), t.Run)
	if user = t.Run - system; user < t.ShownUser {
		user = t.ShownUser
		system = t.Run - user
	}
	return user, system
}
