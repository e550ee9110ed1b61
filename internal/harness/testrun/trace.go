package testrun

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// tracePipe is the kernel's trace output, where the eBPF programs' and the
// probes' debug messages go. A nil one has none.
type tracePipe struct {
	fd  int
	buf []byte
}

// openTracePipe opens it by its full path: opening the directory would not
// mount tracefs on some kernels.
func openTracePipe() (*tracePipe, error) {
	var all error
	for _, path := range []string{"/sys/kernel/tracing/trace_pipe", "/sys/kernel/debug/tracing/trace_pipe"} {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err == nil {
			return &tracePipe{fd: fd, buf: make([]byte, 16384)}, nil
		}
		all = errors.Join(all, fmt.Errorf("open %s: %w", path, err))
	}
	return nil, all
}

func (p *tracePipe) close() {
	if p != nil {
		unix.Close(p.fd)
	}
}

// discard drops what has come so far.
func (p *tracePipe) discard() { p.read(func([]byte) {}) }

// copyTo writes what has come since.
func (p *tracePipe) copyTo(w io.Writer) {
	some := false
	p.read(func(b []byte) {
		if !some {
			fmt.Fprintln(w, "  trace_pipe:")
			some = true
		}
		w.Write(b)
	})
	if p != nil && !some {
		fmt.Fprintln(w, "  trace_pipe: nothing")
	}
}

// read reads what is there, but no more than a busy system's flood.
func (p *tracePipe) read(f func([]byte)) {
	if p == nil {
		return
	}
	for range 256 {
		n, err := unix.Read(p.fd, p.buf)
		if err != nil || n <= 0 {
			return
		}
		f(p.buf[:n])
	}
}
