//go:build linux

package record

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// longestDrain is far more than a serial line takes for any record.
const longestDrain = 10 * time.Second

// Drain waits until all that was written to f has left for its serial line: a machine that dies or
// powers off takes along what has not. For what is no terminal there is nothing to wait for. A line
// that is stuck is not waited for without end, as tcdrain(3) would: who listens at its other end
// finds that out.
func Drain(f *os.File) error {
	for end := time.Now().Add(longestDrain); time.Now().Before(end); time.Sleep(time.Millisecond) {
		left, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCOUTQ)
		if errors.Is(err, unix.ENOTTY) || err == nil && left == 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}
