package fidelity

import (
	"fmt"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/fidelity/score"
	"github.com/quark-linux/quark/fidelity/truth"
	"github.com/quark-linux/quark/fidelity/witness"
)

// Storm is one point of the curve of seen against offered.
type Storm struct {
	Backend string  `json:"backend"`
	Offered float64 `json:"offered"` // processes a second that there were
	Truth   int     `json:"truth"`   // events of them
	Seen    int     `json:"seen"`
	Lost    uint64  `json:"lost"` // reported as lost
	Cause   string  `json:"cause,omitempty"`
	// Known is the share of fields that were known, 0 to 1.
	Known float64 `json:"known"`
	// Extra events did not happen, or not as often; Inverted ones came out of order.
	Extra    int `json:"extra,omitempty"`
	Inverted int `json:"inverted,omitempty"`
	// Wrong are fields and stamps.
	Wrong    int      `json:"wrong,omitempty"`
	Findings []string `json:"findings,omitempty"`
}

// Honest reports whether all that is missing was reported as lost, and nothing is
// there that should not be.
func (s *Storm) Honest() bool {
	return uint64(s.Truth-s.Seen) <= s.Lost && s.Extra+s.Inverted+s.Wrong == 0
}

const (
	// topRate is offered where the machine gives it, in processes a second.
	topRate      = 4000
	stormLength  = 500 * time.Millisecond
	leastStorm   = 100 // processes
	stormWorkers = 4
)

// capacity is how many processes a second the machine gives that nobody watches.
func capacity(o Options) (int, error) {
	run, err := scenario.Start(scenario.Storm{Processes: 2 * leastStorm, Workers: stormWorkers, Mode: scenario.ForkExecExit}.Scenario())
	if err != nil {
		return 0, err
	}
	outcome, err := run.Wait(o.Patience)
	if err != nil {
		return 0, err
	}
	_, rate := stormLives(outcome.Lives)
	return int(rate), nil
}

// rates are what is offered, each twice the one before, up to the top rate or what
// halving leaves of it where the machine gives much less.
func rates(most int) []int {
	top := topRate
	for 10*most < 7*top && top >= 16 {
		top /= 2
	}
	return []int{top / 8, top / 4, top / 2, top}
}

// Storms offers rising rates to all backends at once, and at last as many processes
// as the machine gives, of which there are about most a second.
func Storms(o Options, most int) (list []Storm, err error) {
	o.setDefaults()
	for _, rate := range append(rates(most), 0) {
		offered := rate
		if rate == 0 {
			offered = most
		}
		n := max(leastStorm, int(float64(offered)*stormLength.Seconds()))
		o.Progress(fmt.Sprintf("a storm of %d processes", n))
		points, err := storm(&o, scenario.Storm{Processes: n, Workers: stormWorkers, Rate: rate, Mode: scenario.ForkExecExit})
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
	var open []*witness.Witness
	defer func() {
		for _, w := range open {
			w.Close()
		}
	}()
	for _, name := range o.Backends.Names() {
		if w, err := witness.Open(name, quark.Options{HoldTime: o.Hold}, false); err == nil {
			open = append(open, w)
		}
	}
	witness.Start(open)
	outcomes, err := witness.Perform(run, open, o.Patience)
	if err != nil {
		return nil, err
	}
	if _, err := witness.Settle(witness.Listeners(open), o.Patience); err != nil {
		return nil, err
	}
	if err := witness.Pause(open); err != nil {
		return nil, err
	}
	lives, rate := stormLives(outcomes[0].Lives)
	for len(open) > 0 {
		w := open[0]
		open = open[1:]
		out := w.Testimony()
		stats, err := w.Close()
		if err != nil {
			return nil, err
		}
		sc := score.Lives(out, lives)
		all := sc.All()
		list = append(list, Storm{
			Backend: w.Backend, Offered: rate, Truth: sc.Truth, Seen: sc.Seen, Lost: stats.Lost(), Cause: causes(&stats),
			Known: float64(all.Right+all.Stale+all.Truncated) / float64(max(1, all.Total())),
			Extra: sc.Phantoms + sc.Duplicates, Inverted: sc.Inversions, Wrong: all.Wrong + sc.Stamp.Wrong + sc.Table, Findings: sc.Findings,
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
