package tracepoint

import (
	"testing"

	"github.com/quark-linux/quark/backends/source"
)

// TestLostNames: what a ring of new names has lost is told apart by the tracepoints' hits, and
// stays so while a BPF program of somebody else keeps hits back.
func TestLostNames(t *testing.T) {
	s := newSource(source.Options{}, 1)
	for _, w := range []what{newTask, executed, ended} {
		s.byWhat[w] = new(layout)
	}
	c := new(cpu)
	c.hits, c.names = &ring{cpu: c}, &ring{cpu: c}
	s.cpus, s.rings = []*cpu{c}, c.rings()
	check := func(step string, want uint64) {
		t.Helper()
		if n, exact := s.lostNames(); n != want || !exact {
			t.Errorf("%s: %d new names are lost, exactly %v; want %d", step, n, exact, want)
		}
	}
	c.hits.tally.Saw(int(newTask), 1000)
	s.others = 1050 // 50 hits were kept back
	s.balance()
	check("nothing is lost", 0)

	c.names.full = true // 100 new names and 200 births are lost, of which the next record tells
	c.hits.tally.Saw(int(newTask), 1300)
	s.others = 1150
	s.balance()
	check("a full ring", 0)
	s.loseNames(c.names, 300)
	c.names.full = false
	check("it is told of", 100)
	s.balance()
	check("it is settled", 100)

	c.hits.tally.Saw(int(newTask), 1400)
	s.others = 1350 // 100 more were kept back
	check("later", 100)
	s.balance()
	s.loseNames(c.names, 10)
	s.others += 5
	check("again", 110)
}
