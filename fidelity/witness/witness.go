// Package witness records what queues deliver while scenarios run, so that package score
// can hold it against the truth.
//
// A [Listener] reads one queue. A [Witness] is one backend: a queue that reports each
// event by itself, and one that joins events as users get them by default. [Perform] runs
// a scenario while witnesses listen, and [Settle] waits until they have delivered everything.
package witness

import (
	"errors"
	"fmt"
	"time"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/fidelity/score"
	"github.com/quark-linux/quark/fidelity/truth"
)

// Witness is one backend that is listened to.
type Witness struct {
	Backend string
	Single  *Listener // each event by itself
	Joined  *Listener // events joined as by default, and processes kept to the end; or nil
	Threads bool      // Single delivers the events of threads too
	opened  uint64
	closed  uint64 // when Drain was called, 0 before
}

// New returns a witness whose queues have just been opened. joined may be nil.
func New(single, joined *Listener, threads bool) *Witness {
	return &Witness{Backend: single.Queue.Backend(), Single: single, Joined: joined, Threads: threads, opened: truth.Clock()}
}

// Listeners returns those of all witnesses.
func Listeners(all []*Witness) (list []*Listener) {
	for _, w := range all {
		list = append(list, w.Single)
		if w.Joined != nil {
			list = append(list, w.Joined)
		}
	}
	return list
}

// Start starts the listeners of all witnesses.
func Start(all []*Witness) {
	for _, l := range Listeners(all) {
		l.Start()
	}
}

// Pause pauses the listeners of all witnesses.
func Pause(all []*Witness) (err error) {
	for _, l := range Listeners(all) {
		err = errors.Join(err, l.Pause())
	}
	return err
}

// Drain begins the orderly end of the queues, which can be drained, and reads all that they still
// deliver. They stay open.
func (w *Witness) Drain(patience time.Duration) (err error) {
	w.closed = truth.Clock()
	for _, l := range Listeners([]*Witness{w}) {
		err = errors.Join(err, l.drain(patience))
	}
	return err
}

// Perform lets scenarios that were started do their work while the witnesses, whose
// listeners have been started, listen, and returns what they did.
func Perform(run *scenario.Running, all []*Witness, patience time.Duration) ([]*scenario.Outcome, error) {
	if run.Unread {
		err := Pause(all)
		o, err2 := run.Wait(patience)
		Start(all)
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

// Testimony returns what was delivered since the last Forget, for scoring. The
// listeners have to be paused.
func (w *Witness) Testimony() *score.Witness {
	out := &score.Witness{
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

// Forget drops what was delivered so far.
func (w *Witness) Forget() {
	for _, l := range Listeners([]*Witness{w}) {
		l.forget()
	}
}

// Close closes the queues and returns the last counters of the first.
func (w *Witness) Close() (stats engine.Stats, err error) {
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

// Settle waits until every listener has delivered the ends of what was done, see awaits, and
// the end of a process of each CPU that was started after everything else. As queues deliver
// in order, everything from before has come then, and every CPU has said what it lost. It returns
// the stamp of the last of those ends.
func Settle(all []*Listener, done []*scenario.Outcome, patience time.Duration) (last uint64, err error) {
	for _, l := range all {
		for _, o := range done {
			for _, life := range o.Lives {
				for l.awaits(life) {
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
