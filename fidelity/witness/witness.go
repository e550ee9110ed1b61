package witness

import (
	"errors"
	"fmt"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/fidelity/score"
	"github.com/quark-linux/quark/fidelity/truth"
)

// Witness is one backend that is listened to.
type Witness struct {
	Backend string
	Single  *Listener // each event by itself
	Joined  *Listener // events joined as by default; nil where only loads are measured
	opened  uint64
}

// Open opens a queue of a backend that delivers each event by itself, and with lookup
// also those of threads. The options' other fields are as given.
func Open(backend string, opts quark.Options, lookup bool) (*Witness, error) {
	opts.MinAgg, opts.Threads = true, lookup
	l, err := open(backend, opts, lookup)
	if err != nil {
		return nil, err
	}
	return &Witness{Backend: backend, Single: l, opened: truth.Clock()}, nil
}

// New returns a witness of two open queues of a backend: one that reports each event and
// thread by itself, and one that joins events and knows processes that have ended to the
// end of the run.
func New(single *quark.Queue, singleHold time.Duration, joined *quark.Queue, joinedHold time.Duration) *Witness {
	return &Witness{
		Backend: single.Backend(), Single: Listen(single, singleHold, true), Joined: Listen(joined, joinedHold, true),
		opened: truth.Clock(),
	}
}

// OpenJoined opens a second queue, which joins events.
func (w *Witness) OpenJoined(opts quark.Options) (err error) {
	w.Joined, err = open(w.Backend, opts, true)
	w.opened = truth.Clock()
	return err
}

func open(backend string, opts quark.Options, lookup bool) (*Listener, error) {
	set, err := backends.Parse(backend)
	if err != nil {
		return nil, err
	}
	opts.Backends, opts.Strict = set, true
	q, err := quark.Open(opts)
	if err != nil {
		return nil, Reason(err)
	}
	return Listen(q, opts.HoldTime, lookup), nil
}

// Reason returns the error of the one backend that [quark.Open] tried.
func Reason(err error) error {
	var all *backends.Error
	if errors.As(err, &all) && len(all.Attempts) == 1 {
		return all.Attempts[0].Err
	}
	return err
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
func Pause(all []*Witness) error {
	var err error
	for _, l := range Listeners(all) {
		err = errors.Join(err, l.Pause())
	}
	return err
}

// Testimony returns what was delivered since the last Forget, for scoring. The
// listeners have to be paused.
func (w *Witness) Testimony() *score.Witness {
	out := &score.Witness{
		Backend: w.Backend, Table: w.Single.Queue.Capabilities(), Hold: uint64(w.Single.hold), Opened: w.opened,
		BootOffset: w.Single.Queue.Clock().BootOffset, WallOffset: truth.WallOffset(), Threads: w.Single.lookup, AfterEnd: score.AfterEnd(w.Backend), Single: w.Single.Seen(),
	}
	if w.Joined != nil {
		w.Joined.checkEnded()
		out.Joined, out.JoinedHold = w.Joined.Seen(), uint64(w.Joined.hold)
	}
	return out
}

// Forget drops what was delivered so far.
func (w *Witness) Forget() {
	w.Single.Forget()
	if w.Joined != nil {
		w.Joined.Forget()
	}
}

// Close closes the queues and returns the last counters of the first.
func (w *Witness) Close() (quark.Stats, error) {
	stats, err := w.Single.Close()
	if w.Joined != nil {
		_, err2 := w.Joined.Close()
		err = errors.Join(err, err2)
	}
	if err != nil {
		return stats, fmt.Errorf("%s: %w", w.Backend, err)
	}
	return stats, nil
}
