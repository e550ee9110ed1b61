package league

import (
	"testing"
	"time"
)

// There are as many repeats as are over in time by what the first took, and the time left is that
// of the turns to come, of the scenarios of the first repeat and of the filter.
func TestPlan(t *testing.T) {
	type turn struct{ took, found time.Duration }
	const s = time.Second
	for _, c := range []struct {
		name         string
		turns        []turn
		failed       int // the last participants
		repeat, done int
		elapsed      time.Duration
		total        int
		left         time.Duration
	}{
		{"nobody had a turn", make([]turn, 3), 0, 0, 0, 5 * s, 6, 0},
		{"the first had one", []turn{{10 * s, 2 * s}, {}, {}}, 0, 0, 1, 17 * s, 6, 2*(12*s) + 5*30*s + 20*s},
		{"the others take longer", []turn{{10 * s, 2 * s}, {20 * s, 4 * s}, {}}, 0, 0, 2, 41 * s, 6, 15*s + 3*s + 5*45*s + 20*s},
		{"all fit", []turn{{10 * s, 0}, {20 * s, 0}, {10 * s, 0}}, 0, 1, 0, 60 * s, 6, 5*40*s + 20*s},
		{"four fit", []turn{{10 * s, 0}, {20 * s, 0}, {50 * s, 0}}, 0, 1, 0, 100 * s, 4, 3*80*s + 20*s},
		{"the same, in the middle of a repeat", []turn{{10 * s, 0}, {20 * s, 0}, {50 * s, 0}}, 0, 1, 2, 170 * s, 4, 10*s + 2*80*s + 20*s},
		{"the first is long", []turn{{190 * s, 0}, {190 * s, 0}, {}}, 0, 0, 2, 380 * s, 1, 190*s + 20*s},
		{"another does not fit", []turn{{100 * s, 0}, {100 * s, 0}, {100 * s, 0}}, 0, 1, 0, 305 * s, 1, 20 * s},
		{"it has begun", []turn{{100 * s, 0}, {100 * s, 0}, {100 * s, 0}}, 0, 1, 1, 395 * s, 2, 100*s + 100*s + 20*s},
		{"one has failed", []turn{{10 * s, 0}, {20 * s, 0}, {50 * s, 0}}, 1, 1, 0, 100 * s, 6, 5*30*s + 20*s},
		{"all had their turns", []turn{{10 * s, 0}, {20 * s, 0}, {10 * s, 0}}, 0, 6, 0, 250 * s, 6, 20 * s},
	} {
		g := &game{Options: Options{Repeats: 6, For: 400 * s}, filterTime: 20 * s}
		for i, w := range c.turns {
			p := &player{took: w.took, found: w.found}
			if i >= len(c.turns)-c.failed {
				p.failed = strikes
			}
			g.players = append(g.players, p)
		}
		if total, left := g.plan(c.repeat, c.done, c.elapsed); total != c.total || left != c.left {
			t.Errorf("%s: %d repeats and %v left, not %d and %v", c.name, total, left, c.total, c.left)
		}
	}
}
