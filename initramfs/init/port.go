//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// openPort opens the results port, a serial line, in raw mode. init keeps it open, as the last
// close of a terminal resets its mode. The port becomes the controlling terminal of init's session.
// Otherwise it would become the controlling terminal of a command that leads a session and opens
// $QUARK_RESULTS without O_NOCTTY, whose exit would hang up the line.
func openPort(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("open results port: %w", err)
	}
	if err := setRaw(int(f.Fd())); err != nil {
		f.Close()
		return nil, fmt.Errorf("set raw mode of %s: %w", path, err)
	}
	return f, nil
}

// setRaw sets the mode of cfmakeraw(3), because a terminal otherwise changes bytes. It does nothing
// if fd is not a terminal.
func setRaw(fd int) error {
	t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if errors.Is(err, unix.ENOTTY) {
		return nil
	}
	if err != nil {
		return err
	}
	t.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	t.Oflag &^= unix.OPOST
	t.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	t.Cflag &^= unix.CSIZE | unix.PARENB
	t.Cflag |= unix.CS8 | unix.CLOCAL // CLOCAL: no carrier to wait for
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
	return unix.IoctlSetTermios(fd, unix.TCSETS, t)
}
