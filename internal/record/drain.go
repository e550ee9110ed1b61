//go:build linux

package record

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Drain waits until all that was written to f has left its serial line: a machine that dies or powers off takes along what
// has not. For what is no terminal there is nothing to wait for.
func Drain(f *os.File) error {
	for {
		// TCSBRK with an argument other than 0 is tcdrain(3).
		err := unix.IoctlSetInt(int(f.Fd()), unix.TCSBRK, 1)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if errors.Is(err, unix.ENOTTY) {
			return nil
		}
		return err
	}
}
