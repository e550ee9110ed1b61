package kernelversion

import "golang.org/x/sys/unix"

// Running returns the release of the running kernel, as uname -r prints it.
func Running() (string, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "", err
	}
	return unix.ByteSliceToString(u.Release[:]), nil
}
