package monitor

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// terminal opens a pseudo terminal in raw mode. Data written to theirs can be read from ours.
func terminal() (ours, theirs *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open a terminal: %w", err)
	}
	ours = os.NewFile(uintptr(fd), "terminal")
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		ours.Close()
		return nil, nil, fmt.Errorf("open a terminal: %w", err)
	}
	// raw mode: no echo, no line buffer, no translation of line ends
	t, err := unix.IoctlGetTermios(int(theirs.Fd()), unix.TCGETS)
	if err == nil {
		t.Iflag, t.Oflag, t.Lflag = 0, 0, 0
		err = unix.IoctlSetTermios(int(theirs.Fd()), unix.TCSETS, t)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(theirs.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 0xffff})
	}
	if err != nil {
		ours.Close()
		theirs.Close()
		return nil, nil, fmt.Errorf("set up a terminal: %w", err)
	}
	return ours, theirs, nil
}
