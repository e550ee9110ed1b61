package cnproc

import (
	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/conform"
)

// sink is a buffer that keeps events in the order of arrival.
type sink struct {
	events conform.Events
	room   int
}

func (s *sink) Room() int                  { return s.room - len(s.events) }
func (s *sink) Reserve() *engine.RawEvent  { return new(engine.RawEvent) }
func (s *sink) Release(*engine.RawEvent)   {}
func (s *sink) Insert(ev *engine.RawEvent) { s.events = append(s.events, ev) }

// delivered returns the number of events in the sink, without gaps.
func (s *sink) delivered() (n uint64) {
	for _, ev := range s.events {
		if ev.Kind != engine.KindGap {
			n++
		}
	}
	return n
}

// offline returns a source without a kernel and without /proc, which behaves as on a new kernel.
func offline(o Options, shared ...source.Options) *Source {
	s := newSource(append(shared, source.Options{})[0], o)
	s.track.last6, s.track.dumps.spread = true, false
	s.to = &sink{}
	return s
}

// watching returns a source that watches a model of a kernel. now is the time of its clock.
func watching(model view, now *uint64) (s *Source, got *sink) {
	s, got = offline(Options{}), &sink{room: 1 << 20}
	s.clock.BootClock, s.clock.now = procfs.BootClock{}, func() uint64 { return *now }
	s.track.view, s.to, s.loss.counted = model, got, *now
	s.track.learn()
	return s, got
}

// feed sends messages to a source, like the kernel.
func feed(s *Source, to *sink, records ...[]byte) {
	s.to = to
	for _, r := range records {
		s.message(r, true)
	}
	s.release()
}
