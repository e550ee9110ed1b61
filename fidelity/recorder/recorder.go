// Package recorder records the events that queues deliver while scenarios run, for package score.
//
// A [Listener] reads one queue. A [Recorder] is one backend with two queues: one reports each event
// separately, the other joins events as by default. [RunScenarios] runs scenarios while recorders
// listen, and [WaitDelivered] waits until they have delivered all events.
package recorder

import (
	"errors"
	"fmt"
	"time"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/fidelity/score"
	"github.com/quark-linux/quark/fidelity/truth"
)

// Recorder records one backend.
type Recorder struct {
	Backend string
	Single  *Listener // each event separately
	Joined  *Listener // events joined as by default, all processes kept; or nil
	Threads bool      // Single delivers thread events too
	opened  uint64
	closed  uint64 // when Drain was called, 0 before
}

// New returns a recorder for queues that have just been opened. joined may be nil.
func New(single, joined *Listener, threads bool) *Recorder {
	return &Recorder{Backend: single.Queue.Backend(), Single: single, Joined: joined, Threads: threads, opened: truth.Clock()}
}

// Listeners returns the listeners of all recorders.
func Listeners(all []*Recorder) (list []*Listener) {
	for _, w := range all {
		list = append(list, w.Single)
		if w.Joined != nil {
			list = append(list, w.Joined)
		}
	}
	return list
}

// StartAll starts the listeners of all recorders.
func StartAll(all []*Recorder) {
	for _, l := range Listeners(all) {
		l.Start()
	}
}

// PauseAll pauses the listeners of all recorders.
func PauseAll(all []*Recorder) (err error) {
	for _, l := range Listeners(all) {
		err = errors.Join(err, l.Pause())
	}
	return err
}

// Drain begins the orderly end of the queues and reads the events that they still deliver. The
// queues stay open.
func (w *Recorder) Drain(patience time.Duration) (err error) {
	w.closed = truth.Clock()
	for _, l := range Listeners([]*Recorder{w}) {
		err = errors.Join(err, l.drain(patience))
	}
	return err
}

// RunScenarios lets started scenarios run while the recorders listen, and returns their outcomes.
// The listeners must have been started.
func RunScenarios(run *scenario.Running, all []*Recorder, patience time.Duration) ([]*scenario.Outcome, error) {
	if run.Unread {
		err := PauseAll(all)
		o, err2 := run.Wait(patience)
		StartAll(all)
		return o, errors.Join(err, err2)
	}
	run.ReadAll = func() (err error) {
		for _, l := range Listeners(all) {
			err = errors.Join(err, l.readAll())
		}
		return err
	}
	return run.Wait(patience)
}

// Delivered returns the events since the last Forget, for scoring. The listeners must be paused.
func (w *Recorder) Delivered() *score.Delivered {
	out := &score.Delivered{
		Backend: w.Backend, Table: w.Single.Queue.Capabilities(), Hold: uint64(w.Single.hold), Opened: w.opened, Closed: w.closed,
		BootOffset: truth.BootOffset(), WallOffset: truth.WallOffset(), Threads: w.Threads, AfterEnd: w.Single.Queue.Capabilities().Stamps.Ends, Clock: score.Stamps(w.Single.Queue.Capabilities()),
		Single: w.Single.Seen(), Unread: w.Single.unread() > w.Single.unreadBefore,
	}
	if w.Joined != nil {
		out.Unread = out.Unread || w.Joined.unread() > w.Joined.unreadBefore
		w.Joined.checkEnded()
		out.Joined, out.JoinedHold = w.Joined.Seen(), uint64(w.Joined.hold)
	}
	return out
}

// Forget drops the recorded events.
func (w *Recorder) Forget() {
	for _, l := range Listeners([]*Recorder{w}) {
		l.forget()
	}
}

// Close closes the queues and returns the last counters of the first.
func (w *Recorder) Close() (stats engine.Stats, err error) {
	stats, err = w.Single.Close()
	if w.Joined != nil {
		_, err2 := w.Joined.Close()
		err = errors.Join(err, err2)
	}
	if err != nil {
		return stats, fmt.Errorf("%s: %w", w.Backend, err)
	}
	return stats, nil
}

// marker is a process on one CPU that was started after all other processes.
type marker struct {
	cpu, pid int
	before   uint64
	again    time.Time // when to start another one, as the event of this one may be lost
}

func (m *marker) start() (err error) {
	m.before = truth.Clock()
	m.pid, _, err = scenario.Brief(m.cpu)
	m.again = time.Now().Add(3 * time.Second)
	return err
}

// WaitDelivered waits until every listener has delivered the ends of the outcomes' processes (see
// awaits), and the end of a marker process on each CPU. Markers start after all other processes. As
// queues deliver in order, all earlier events have arrived then, and every CPU has reported its
// losses. It returns the last stamp of the markers' ends.
func WaitDelivered(all []*Listener, done []*scenario.Outcome, patience time.Duration) (last uint64, err error) {
	for _, l := range all {
		for _, o := range done {
			for _, p := range o.Processes {
				for l.awaits(p) {
					if err := l.failed(); err != nil {
						return 0, err
					}
					time.Sleep(2 * time.Millisecond)
				}
			}
		}
	}
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
	for end := time.Now().Add(patience); ; time.Sleep(2 * time.Millisecond) {
		missing := ""
		for _, m := range markers {
			late := false
			for _, l := range all {
				if err := l.failed(); err != nil {
					return 0, err
				}
				at := l.end(m.pid)
				if at < m.before {
					late, missing = true, l.Queue.Backend()
				}
				last = max(last, at)
			}
			if late && time.Now().After(m.again) {
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
