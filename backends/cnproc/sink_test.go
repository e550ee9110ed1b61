package cnproc

import (
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/conform"
)

// sink is a buffer that keeps what it gets in the order of arrival.
type sink struct {
	events conform.Events
	room   int
}

func (s *sink) Len() int                   { return 0 }
func (s *sink) Room() int                  { return s.room - len(s.events) }
func (s *sink) Reserve() *engine.RawEvent  { return new(engine.RawEvent) }
func (s *sink) Release(*engine.RawEvent)   {}
func (s *sink) Insert(ev *engine.RawEvent) { s.events = append(s.events, ev) }

func (s *sink) Last(pid uint32, kinds engine.Events, depth int) *engine.RawEvent {
	for i := len(s.events) - 1; i >= 0 && depth > 0; i-- {
		ev := s.events[i]
		if ev.PID != pid {
			continue
		}
		if ev.Kind.Events()&kinds != 0 && !ev.Thread {
			return ev
		}
		depth--
	}
	return nil
}

// offline is a source without a kernel.
func offline(o Options, shared ...source.Options) *Source {
	if err := o.setDefaults(); err != nil {
		panic(err)
	}
	s := &Source{opts: o, threads: append(shared, source.Options{})[0].Threads, fd: -1, batch: newBatch(), groups: newGroups(true)}
	s.enrich = enricher{byPID: map[uint32]int32{}, clock: newClock()}
	return s
}

// feed hands a source messages as if the kernel had sent them.
func feed(s *Source, to *sink, records ...[]byte) {
	for _, r := range records {
		s.take(r, true, to)
	}
	s.enrich.flush(to)
}
