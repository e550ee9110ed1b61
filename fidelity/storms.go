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

// Storm is one point of the curve of events seen by offered rate.
type Storm struct {
	Backend string  `json:"backend"`
	Offered float64 `json:"offered"` // processes that were started, per second
	Truth   int     `json:"truth"`   // their events
	Seen    int     `json:"seen"`
	Lost    uint64  `json:"lost"` // reported as lost
	Cause   string  `json:"cause,omitempty"`
	// Known is the share of fields that were known, 0 to 1.
	Known float64 `json:"known"`
	// Extra counts phantoms and duplicates, Inverted events delivered out of order.
	Extra    int `json:"extra,omitempty"`
	Inverted int `json:"inverted,omitempty"`
	// Wrong counts wrong fields, time stamps and process table entries.
	Wrong    int      `json:"wrong,omitempty"`
	Findings []string `json:"findings,omitempty"`
}

// Honest reports whether all missing events were reported as lost and every delivered event is
// true.
func (s *Storm) Honest() bool {
	return uint64(s.Truth-s.Seen) <= s.Lost && s.Extra+s.Inverted+s.Wrong == 0
}

const (
	// topRate is the highest rate in processes per second; slow machines get less.
	topRate      = 4000
	stormLength  = 500 * time.Millisecond
	minStorm     = 100 // processes
	stormWorkers = 4
)

// capacity measures how many processes per second the machine can run without a monitor.
func capacity(o Options) (int, error) {
	run, err := scenario.Start(scenario.Storm{Processes: 2 * minStorm, Workers: stormWorkers, Mode: scenario.ForkExecExit}.Scenario())
	if err != nil {
		return 0, err
	}
	outcome, err := run.Wait(o.Patience)
	if err != nil {
		return 0, err
	}
	_, rate := stormLives(outcome[0].Lives)
	return int(rate), nil
}

// rates returns the four rates to offer, each twice the one before. The last is topRate, halved
// until the machine can nearly reach it, where most is the machine's capacity.
func rates(most int) []int {
	top := topRate
	for 10*most < 7*top && top >= 16 {
		top /= 2
	}
	return []int{top / 8, top / 4, top / 2, top}
}

// Storms runs storms of rising rates, and at last one at full speed, while all backends listen.
// most is about how many processes per second the machine can run.
func Storms(o Options, most int) (list []Storm, err error) {
	o.setDefaults()
	for _, rate := range append(rates(most), 0) {
		offered := rate
		if rate == 0 {
			offered = most
		}
		n := max(minStorm, int(float64(offered)*stormLength.Seconds()))
		o.Progress(fmt.Sprintf("a storm of %d processes", n))
		points, err := storm(&o, scenario.Storm{Processes: n, Workers: stormWorkers, Rate: rate, Mode: scenario.ForkExecExit})
		if err != nil {
			return nil, err
		}
		list = append(list, points...)
	}
	return list, nil
}

// storm runs one storm while all backends listen.
func storm(o *Options, s scenario.Storm) (list []Storm, err error) {
	run, err := scenario.Start(s.Scenario())
	if err != nil {
		return nil, err
	}
	var open []*witness.Witness
	defer closeAll(&open)
	for _, name := range o.Backends.Names() {
		if l, err := openQueue(name, quark.Options{HoldTime: o.Hold, MinAgg: true}, false); err == nil {
			open = append(open, witness.New(l, nil, false))
		}
	}
	witness.Start(open)
	outcomes, err := witness.Perform(run, open, o.Patience)
	if err != nil {
		return nil, err
	}
	lives, rate := stormLives(outcomes[0].Lives)
	err = collect(&open, o.Patience, func(w *score.Witness, stats *quark.Stats) {
		sc := score.Lives(w, lives)
		all := sc.All()
		list = append(list, Storm{
			Backend: w.Backend, Offered: rate, Truth: sc.Truth, Seen: sc.Seen, Lost: stats.Lost(), Cause: causes(stats),
			Known: float64(all.Right+all.Carried+all.Truncated) / float64(max(1, all.Total())),
			Extra: sc.Phantoms + sc.Duplicates, Inverted: sc.Inversions, Wrong: all.Wrong + sc.Stamp.Wrong + sc.Table, Findings: sc.Findings,
		})
	})
	return list, err
}

// stormLives returns the short lives of a storm, without its workers, and their rate per second.
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
