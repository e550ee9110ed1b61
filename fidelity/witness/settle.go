package witness

import (
	"fmt"
	"time"

	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/fidelity/truth"
)

// marker is a process of one CPU that was started after everything else.
type marker struct {
	cpu, pid int
	before   uint64
	again    time.Time // when to start another: this one may have been lost
}

func (m *marker) start() (err error) {
	m.before = truth.Clock()
	m.pid, _, err = scenario.Brief(m.cpu)
	m.again = time.Now().Add(3 * time.Second)
	return err
}

// Settle waits until every listener has delivered the end of a process of each CPU
// that was started after everything else. As queues deliver in order, everything from
// before has come then, and every CPU has said what it lost. It returns the stamp of
// the last of those ends.
func Settle(all []*Listener, patience time.Duration) (last uint64, err error) {
	list, err := scenario.CPUs()
	if err != nil {
		return 0, err
	}
	var markers []*marker
	for _, cpu := range list {
		m := &marker{cpu: cpu}
		if err := m.start(); err != nil {
			return 0, err
		}
		markers = append(markers, m)
	}
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		missing := ""
		for _, m := range markers {
			late, stamp, err := m.missing(all)
			if err != nil {
				return 0, err
			}
			last = max(last, stamp)
			if late == "" {
				continue
			}
			missing = late
			if time.Now().After(m.again) {
				if err := m.start(); err != nil {
					return 0, err
				}
			}
		}
		switch {
		case missing == "":
			return last, nil
		case time.Now().After(end):
			return 0, fmt.Errorf("%s has not delivered the last event for %v", missing, patience)
		}
	}
}

// missing names a backend that has not delivered the end of m, or returns the stamp.
func (m *marker) missing(all []*Listener) (backend string, stamp uint64, err error) {
	for _, l := range all {
		if err := l.failed(); err != nil {
			return "", 0, err
		}
		at := l.end(m.pid)
		if at < m.before {
			backend = l.Queue.Backend()
		}
		stamp = max(stamp, at)
	}
	return backend, stamp, nil
}
