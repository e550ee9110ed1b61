package fidelity

import (
	"time"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/fidelity/score"
	"github.com/quark-linux/quark/fidelity/truth"
)

// Storm is one point of the curve of seen against offered.
type Storm struct {
	Backend string  `json:"backend"`
	Offered float64 `json:"offered"` // processes a second that there were
	Truth   int     `json:"truth"`   // events of them
	Seen    int     `json:"seen"`
	Lost    uint64  `json:"lost"` // reported as lost
	// Known is the share of fields that were known, 0 to 1.
	Known float64 `json:"known"`
}

// Storms offers each rate, in processes a second, for about the time given, to all
// backends at once.
func Storms(o Options, rates []int, length time.Duration) (list []Storm, err error) {
	o.setDefaults()
	for _, rate := range rates {
		o.Progress("a storm")
		n := int(float64(rate) * length.Seconds())
		if rate == 0 {
			n = int(5000 * length.Seconds())
		}
		points, err := storm(&o, scenario.Storm{Processes: max(n, 50), Workers: 4, Rate: rate, Mode: scenario.ForkExecExit})
		if err != nil {
			return nil, err
		}
		list = append(list, points...)
	}
	return list, nil
}

func storm(o *Options, s scenario.Storm) (list []Storm, err error) {
	run, err := scenario.Start(s.Scenario())
	if err != nil {
		return nil, err
	}
	var open []*witness
	defer func() {
		for _, w := range open {
			w.close(o.Hold)
		}
	}()
	for _, name := range o.Backends.Names() {
		if w, err := openWitness(name, o.Hold); err == nil {
			open = append(open, w)
		}
	}
	outcome, err := run.Wait(o.Patience)
	if err != nil {
		return nil, err
	}
	if _, err := settle(listeners(open), o.Patience); err != nil {
		return nil, err
	}
	lives, rate := stormLives(outcome.Lives)
	for len(open) > 0 {
		w := open[0]
		open = open[1:]
		out, stats, err := w.close(o.Hold)
		if err != nil {
			return nil, err
		}
		sc := score.Lives(out, lives)
		all := sc.All()
		list = append(list, Storm{
			Backend: w.backend, Offered: rate, Truth: sc.Truth, Seen: sc.Seen, Lost: stats.Lost(),
			Known: float64(all.Right+all.Stale+all.Truncated) / float64(max(1, all.Total())),
		})
	}
	return list, nil
}

// stormLives are the short ones among the lives of a storm, and how many of them
// there were a second.
func stormLives(all []*truth.Life) (lives []*truth.Life, rate float64) {
	first, last := truth.Forever, uint64(0)
	for _, l := range all {
		for _, e := range l.Events {
			if e.Kind == engine.KindExec && e.State.Value[engine.FieldComm] == "storm" {
				lives = append(lives, l)
				first, last = min(first, l.Born()), max(last, l.Ended())
			}
		}
	}
	if len(lives) > 0 {
		rate = float64(len(lives)) / (float64(last-first) / 1e9)
	}
	return lives, rate
}
