package testrun

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"golang.org/x/sys/unix"
)

// tracePipe is the kernel's trace output, where the eBPF programs' and the
// probes' debug messages go. A nil one has none.
type tracePipe struct{ fd int }

// openTracePipe opens it by its full path: opening the directory would not
// mount tracefs on some kernels.
func openTracePipe() (*tracePipe, error) {
	var all error
	for _, path := range []string{"/sys/kernel/tracing/trace_pipe", "/sys/kernel/debug/tracing/trace_pipe"} {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err == nil {
			return &tracePipe{fd}, nil
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

// read returns the text since the last call, but no more than a busy system's flood.
func (p *tracePipe) read() (b []byte) {
	const part, most = 16 << 10, 4 << 20
	for p != nil && len(b) < most {
		b = slices.Grow(b, part)
		n, err := unix.Read(p.fd, b[len(b):len(b)+part])
		if err != nil || n <= 0 {
			break
		}
		b = b[:len(b)+n]
	}
	return b
}

// copyTo writes the text since the last call.
func (p *tracePipe) copyTo(w io.Writer) {
	switch b := p.read(); {
	case len(b) > 0:
		fmt.Fprintf(w, "  trace_pipe:\n%s", b)
	case p != nil:
		fmt.Fprintln(w, "  trace_pipe: nothing")
	}
}
