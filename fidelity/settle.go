package fidelity

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quark-linux/quark/fidelity/truth"
	bare "github.com/quark-linux/quark/internal/barefork"
)

// brief runs a process that ends at once, on one CPU, and returns its pid and what
// is to be recorded of it.
func brief(cpu int) (pid int, records []truth.Record, err error) {
	s := new(bare.Script)
	mask := make([]byte, 1024)
	mask[cpu/8] = 1 << (cpu % 8) // little endian, as amd64 and arm64 are
	s.Call("sched_setaffinity", unix.SYS_SCHED_SETAFFINITY, 0, len(mask), mask)
	before := truth.Clock()
	p, err := bare.Start(s.Exit(0), bare.Options{})
	if err != nil {
		return 0, nil, fmt.Errorf("start a process: %w", err)
	}
	defer p.Free()
	born := truth.Clock()
	var status unix.WaitStatus
	for {
		if _, err = unix.Wait4(p.PID, &status, 0, nil); err != unix.EINTR {
			break
		}
	}
	if err == nil {
		err = p.Check()
	}
	if err != nil {
		return 0, nil, fmt.Errorf("run a process on CPU %d: %w", cpu, err)
	}
	return p.PID, []truth.Record{
		{Op: truth.Fork, PID: p.PID, Earliest: before, Latest: born},
		{Op: truth.Exit, PID: p.PID, Earliest: before, Latest: truth.Clock(), Status: int32(status)},
	}, nil
}

// cpus are those that this process may use.
func cpus() (list []int, err error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("read the CPU affinity: %w", err)
	}
	for cpu := range len(set) * 64 {
		if set.IsSet(cpu) {
			list = append(list, cpu)
		}
	}
	return list, nil
}

// settle waits until every listener has delivered the end of a process of each CPU
// that was started after everything else. As queues deliver in order, all from
// before has come then, and every CPU has said what it lost. It returns the stamp
// of the last of those ends.
func settle(listeners []*listener, patience time.Duration) (last uint64, err error) {
	list, err := cpus()
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
		pid, _, err := brief(cpu)
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
