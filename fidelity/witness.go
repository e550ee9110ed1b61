package fidelity

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/score"
	"github.com/quark-linux/quark/fidelity/truth"
)

// listener is one queue and what it has delivered.
type listener struct {
	q      *quark.Queue
	cancel context.CancelFunc
	done   chan error

	mu    sync.Mutex
	seen  []score.Seen
	ended map[uint32]uint64 // the stamp of the last EXIT of a pid
}

// listen begins to note what q delivers. The listener closes q.
func listen(q *quark.Queue) *listener {
	l := &listener{q: q, done: make(chan error, 1), ended: make(map[uint32]uint64)}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	go func() { l.done <- l.pump(ctx) }()
	return l
}

func (l *listener) pump(ctx context.Context) error {
	for ev, err := range l.q.Events(ctx) {
		if err != nil {
			return err
		}
		s := score.Seen{
			Events: ev.Events, ID: ev.IDChange, Time: ev.Time, At: truth.Clock(), Tracer: ev.Tracer.PID,
			Thread: ev.Thread, Process: ev.Process.Clone(),
		}
		l.mu.Lock()
		l.seen = append(l.seen, s)
		if ev.Events&engine.EventExit != 0 && !ev.Thread {
			l.ended[s.Process.PID] = max(s.Time, l.ended[s.Process.PID])
		}
		l.mu.Unlock()
	}
	return nil
}

// end is the stamp of the last EXIT of a pid, 0 if there was none.
func (l *listener) end(pid int) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ended[uint32(pid)]
}

// stop closes the queue and returns its last counters.
func (l *listener) stop() (quark.Stats, error) {
	l.cancel()
	err := <-l.done
	s, err2 := l.q.Stats()
	return s, errors.Join(err, err2, l.q.Close())
}

// witness is one backend, listened to twice: event by event, and joined. The second
// is left out where only loads are measured.
type witness struct {
	backend        string
	single, joined *listener
	opened         uint64
}

// openWitness opens a backend for the events one by one.
func openWitness(name string, hold time.Duration) (*witness, error) {
	w := &witness{backend: name}
	var err error
	if w.single, err = w.open(hold, true); err != nil {
		return nil, err
	}
	w.opened = truth.Clock()
	return w, nil
}

// join opens it for joined events, too.
func (w *witness) join(hold time.Duration) (err error) {
	w.joined, err = w.open(hold, false)
	w.opened = truth.Clock()
	return err
}

func (w *witness) open(hold time.Duration, minAgg bool) (*listener, error) {
	set, err := backends.Parse(w.backend)
	if err != nil {
		return nil, err
	}
	q, err := quark.Open(quark.Options{Backends: set, Strict: true, HoldTime: hold, MinAgg: minAgg})
	if err != nil {
		return nil, reason(err)
	}
	return listen(q), nil
}

// reason takes the one attempt's error out of that of quark.Open.
func reason(err error) error {
	var all *backends.Error
	if errors.As(err, &all) && len(all.Attempts) == 1 {
		return all.Attempts[0].Err
	}
	return err
}

// listeners are those of all witnesses.
func listeners(open []*witness) (list []*listener) {
	for _, w := range open {
		list = append(list, w.single)
		if w.joined != nil {
			list = append(list, w.joined)
		}
	}
	return list
}

// close ends the listening and returns what was noted.
func (w *witness) close(hold time.Duration) (*score.Witness, quark.Stats, error) {
	out := &score.Witness{
		Backend: w.backend, Table: w.single.q.Capabilities(), Hold: uint64(hold), Opened: w.opened,
		BootOffset: w.single.q.Clock().BootOffset, AfterEnd: score.AfterEnd(w.backend),
	}
	stats, err := w.single.stop()
	out.Single = w.single.seen
	if w.joined != nil {
		_, err2 := w.joined.stop()
		err = errors.Join(err, err2)
		out.Joined = w.joined.seen
	}
	if err != nil {
		return nil, stats, fmt.Errorf("%s: %w", w.backend, err)
	}
	return out, stats, nil
}
