//go:build !linux

package quark

import (
	"errors"
	"fmt"
	"os"
	"time"
)

// poller waits for Wake and for a timer. Sources that need no kernel, such as recordings and tests,
// have no descriptor.
type poller struct {
	woken, closed chan struct{}

	// next is called before each wait and returns its limit, if ok.
	next func() (wait time.Duration, ok bool)
}

func (p *poller) open(source, _ int, next func() (time.Duration, bool)) error {
	if source >= 0 {
		return fmt.Errorf("wait for the source's descriptor: %w on this system: its FD must return -1", errors.ErrUnsupported)
	}
	*p = poller{make(chan struct{}, 1), make(chan struct{}), next}
	return nil
}

// close ends a wait.
func (p *poller) close() error {
	if p.closed != nil {
		close(p.closed)
	}
	return nil
}

// wait sleeps until wake is called or the timeout expires; a negative timeout never does.
// It reports whether a wake has ended it, and returns os.ErrClosed during and after close.
func (p *poller) wait(timeout time.Duration) (woken bool, err error) {
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

// wake ends a wait, or the next one.
func (p *poller) wake() {
	select {
	case p.woken <- struct{}{}:
	default:
	}
}

func (p *poller) watch() int { return -1 }

func (p *poller) expose(func() (time.Duration, bool)) error { return nil }
