package procpoll

import (
	"bytes"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/internal/proctext"
)

// counter is the kernel's count of the tasks that it has made since the boot, "processes" in
// /proc/stat.
type counter struct {
	fd  int
	buf []byte
}

func openCounter() (*counter, error) {
	fd, err := unix.Open("/proc/stat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open /proc/stat: %w", err)
	}
	return &counter{fd: fd, buf: make([]byte, 16<<10)}, nil
}

// read returns the count now.
func (c *counter) read() (uint64, error) {
	for n := 0; ; {
		if n == len(c.buf) { // it has a number for each interrupt line
			c.buf = append(c.buf, make([]byte, len(c.buf))...)
		}
		got, err := unix.Pread(c.fd, c.buf[n:], int64(n))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, fmt.Errorf("read /proc/stat: %w", err)
		case got > 0:
			n += got
		default:
			tasks, ok := parseCounter(c.buf[:n])
			if !ok {
				return 0, errors.New("read /proc/stat: there is no count of processes in it")
			}
			return tasks, nil
		}
	}
}

// parseCounter returns the number of the line "processes".
func parseCounter(text []byte) (uint64, bool) {
	const name = "\nprocesses "
	i := bytes.Index(text, []byte(name))
	if i < 0 {
		return 0, false
	}
	number, _, whole := bytes.Cut(text[i+len(name):], []byte{'\n'})
	if !whole {
		return 0, false
	}
	if tasks, ok := proctext.Uint64(number, 10); ok {
		return tasks, true
	}
	return 0, false
}

// balance compares the tasks that the kernel has made with those that were seen. A task that is
// made while /proc is being read may be seen and not be counted yet: then one less is known to be
// missed until the next reading.
type balance struct {
	base   uint64 // tasks that were made before
	seen   uint64 // since then
	missed uint64 // told of
	// exact are the times of the latest two readings that nothing was made during: all that was
	// missed before the older one is told.
	exact [2]uint64
}

// settle takes the count of before a reading, which began at a time, and that of after it. It
// returns how many further tasks were missed, and since when.
func (b *balance) settle(before, after, began uint64) (missed, since uint64) {
	since = b.exact[0]
	if n := before - b.base; n > b.seen+b.missed {
		missed = n - b.seen - b.missed
		b.missed += missed
	}
	if before == after {
		b.exact = [2]uint64{b.exact[1], began}
	}
	return missed, since
}
