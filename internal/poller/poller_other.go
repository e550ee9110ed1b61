//go:build !linux

package poller

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// Poller waits for Wake and for a timer. Sources that need no kernel, such as recordings and tests,
// have no descriptor.
type Poller struct {
	woken, closed chan struct{}

	// next is called before each wait and returns its limit, if ok.
	next func() (wait time.Duration, ok bool)
}

// Open fails if the source has a descriptor. See Open on Linux.
func (p *Poller) Open(source, _ int, next func() (time.Duration, bool)) error {
	if source >= 0 {
		return fmt.Errorf("wait for the source's descriptor: %w on this system: its FD must return -1", errors.ErrUnsupported)
	}
	*p = Poller{make(chan struct{}, 1), make(chan struct{}), next}
	return nil
}

// Close ends a wait.
func (p *Poller) Close() error {
	if p.closed != nil {
		close(p.closed)
	}
	return nil
}

// Wait sleeps until Wake is called or the timeout expires; a negative timeout never does.
// It reports whether a wake has ended it, and returns os.ErrClosed during and after Close.
func (p *Poller) Wait(timeout time.Duration) (woken bool, err error) {
	if wait, ok := p.next(); ok && (timeout < 0 || wait < timeout) {
		timeout = wait
	}
	var expired <-chan time.Time
	if timeout >= 0 {
		expired = time.After(timeout)
	}
	select {
	case <-p.closed:
	case <-p.woken:
		woken = true
	case <-expired:
	}
	select {
	case <-p.closed:
		return false, os.ErrClosed
	default:
		return woken, nil
	}
}

// Wake ends a wait, or the next one.
func (p *Poller) Wake() {
	select {
	case p.woken <- struct{}{}:
	default:
	}
}

// Watch returns -1.
func (p *Poller) Watch() int { return -1 }

// Expose has no effect.
func (p *Poller) Expose(func() (time.Duration, bool)) error { return nil }
