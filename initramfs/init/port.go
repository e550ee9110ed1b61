//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// port is the results port, a serial line in raw mode. init keeps it open as long as the guest
// runs, for a tty's mode is that of its last open.
type port struct {
	path string
	f    *os.File
}

// openPort opens the port and makes it the controlling terminal of init's own session. No other
// session can take it then: a command that is a session leader and opens $QUARK_RESULTS without
// O_NOCTTY would else own it, and its exit would hang the line up.
func openPort(path string) (*port, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open results port %s: %w", path, err)
	}
	p := &port{path: path, f: os.NewFile(uintptr(fd), path)}
	if err := p.setRaw(); err != nil {
		p.f.Close()
		return nil, fmt.Errorf("set raw mode of %s: %w", path, err)
	}
	return p, nil
}

// setRaw is cfmakeraw(3): the line must not touch a byte, or every newline would grow a carriage
// return. What is no tty needs none of it.
func (p *port) setRaw() error {
	t, err := unix.IoctlGetTermios(int(p.f.Fd()), unix.TCGETS)
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
	return unix.IoctlSetTermios(int(p.f.Fd()), unix.TCSETS, t)
}

// write sends one line, in one write: the command writes to the same port.
func (p *port) write(line []byte) error {
	if p == nil {
		return errors.New("no results port")
	}
	_, err := p.f.Write(line)
	return err
}
