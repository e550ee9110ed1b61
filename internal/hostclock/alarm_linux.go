package hostclock

import (
	"math"
	"unsafe"

	"golang.org/x/sys/unix"
)

// alarm detects that CLOCK_REALTIME was set: the kernel then cancels a timer that never expires, as
// it does when the machine resumes (TFD_TIMER_CANCEL_ON_SET, timerfd_create(2)).
type alarm struct{ timer int }

func newAlarm() alarm {
	fd, err := unix.TimerfdCreate(unix.CLOCK_REALTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return alarm{-1}
	}
	a := alarm{fd}
	a.set()
	return a
}

func (a alarm) fd() int { return a.timer }

func (a alarm) set() {
	spec := unix.ItimerSpec{Value: unix.Timespec{Sec: math.MaxInt32}}
	unix.TimerfdSettime(a.timer, unix.TFD_TIMER_ABSTIME|unix.TFD_TIMER_CANCEL_ON_SET, &spec, nil)
}

// rang reports whether the clock was set since the last call.
func (a alarm) rang() bool {
	if a.timer < 0 {
		return false
	}
	var b [8]byte
	// It never blocks, so it bypasses Go's scheduler.
	_, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(a.timer), uintptr(unsafe.Pointer(&b)), uintptr(len(b)))
	if errno == unix.EAGAIN {
		return false
	}
	a.set()
	return true
}

func (a alarm) close() {
	if a.timer >= 0 {
		unix.Close(a.timer)
	}
}
