package kprobe

import (
	"github.com/quark-linux/quark/backends/internal/selftest"
	"github.com/quark-linux/quark/engine"
)

// selfTest tells whether what is fetched through types that may not be the
// running kernel's is right. Counting starts after it.
func (s *Source) selfTest() error {
	defer func() { s.handed, s.lost, s.decode = 0, 0, 0 }()
	return selftest.Run(&s.capabilities, func(take func(*engine.RawEvent)) error {
		return s.Populate(&taker{take, maxTaken})
	})
}

// maxTaken is how many events the self-test takes before it looks at the time.
const maxTaken = 4096

// taker is an [engine.Sink] that hands its events on.
type taker struct {
	take func(*engine.RawEvent)
	room int
}

func (t *taker) Room() int                 { return t.room }
func (t *taker) Reserve() *engine.RawEvent { return new(engine.RawEvent) }
func (t *taker) Release(*engine.RawEvent)  {}
func (t *taker) Insert(ev *engine.RawEvent) {
	t.room--
	t.take(ev)
}
