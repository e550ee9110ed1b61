package kernelversion

import (
	"os"

	"golang.org/x/sys/unix"
)

// Running returns the release of the running kernel, as uname -r prints it.
func Running() (string, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "", err
	}
	return unix.ByteSliceToString(u.Release[:]), nil
}

// Realtime reports whether the running kernel has PREEMPT_RT, from uname -v, or from a file of
// sysfs, which may not be mounted.
func Realtime() bool {
	var u unix.Utsname
	if unix.Uname(&u) == nil && isRealtime(unix.ByteSliceToString(u.Version[:])) {
		return true
	}
	_, err := os.Stat("/sys/kernel/realtime")
	return err == nil
}
