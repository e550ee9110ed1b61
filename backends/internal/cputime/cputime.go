// Package cputime divides the time that a process ran into user and system time, as the kernel
// does for getrusage(2), times(2) and /proc/PID/stat.
//
// In which mode a tick finds a thread decides whether utime or stime of its task grow: in most
// configurations these are whole ticks. The scheduler knows to the nanosecond how long it ran, but
// not in which mode. So the kernel divides the one by the ratio of the others.
package cputime

import "math/bits"

// Times are what the kernel counts of a thread group, in nanoseconds.
type Times struct {
	Run          uint64 // sum_exec_runtime
	User, System uint64 // utime and stime
	// What was last shown of the group, signal->prev_cputime: neither time ever becomes less.
	ShownUser, ShownSystem uint64
}

// Divide is cputime_adjust of kernel/sched/cputime.c.
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
