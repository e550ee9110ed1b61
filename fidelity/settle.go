package fidelity

import (
	"errors"
	"fmt"
	"time"

	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/fidelity/truth"
)

// settle waits until every listener has delivered the end of a process of each CPU
// that was started after everything else. As queues deliver in order, all from
// before has come then, and every CPU has said what it lost. It returns the stamp
// of the last of those ends.
func settle(listeners []*listener, patience time.Duration) (last uint64, err error) {
	list, err := scenario.CPUs()
	if err != nil {
		return 0, err
	}
	for _, cpu := range list {
		if last, err = settleOn(cpu, listeners, patience); err != nil {
			return 0, err
		}
	}
	return last, nil
}

func settleOn(cpu int, listeners []*listener, patience time.Duration) (uint64, error) {
	for end := time.Now().Add(patience); ; {
		before := truth.Clock()
		pid, _, err := scenario.Brief(cpu)
		if err != nil {
			return 0, err
		}
		// It may have been lost, then there has to be another.
		for again := time.Now().Add(3 * time.Second); time.Now().Before(again); time.Sleep(5 * time.Millisecond) {
			var missing *listener
			var last uint64
			for _, l := range listeners {
				if err := l.failed(); err != nil {
					return 0, err
				}
				stamp := l.end(pid)
				if stamp < before {
					missing = l
				}
				last = max(last, stamp)
			}
			if missing == nil {
				return last, nil
			}
			if time.Now().After(end) {
				return 0, fmt.Errorf("%s has not delivered the last event for %v", missing.q.Backend(), patience)
			}
		}
	}
}

var errEnded = errors.New("the queue has ended early")

// failed returns why l does not listen any more.
func (l *listener) failed() error {
	select {
	case err := <-l.done:
		l.done <- err
		return errors.Join(fmt.Errorf("%s: %w", l.q.Backend(), errEnded), err)
	default:
		return nil
	}
}
