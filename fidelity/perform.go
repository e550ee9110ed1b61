package fidelity

import (
	"fmt"
	"path"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/fidelity/meter"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/fidelity/score"
	"github.com/quark-linux/quark/fidelity/witness"
)

// Main does not return if this process was started as a part of the suite. A program
// that uses this package calls it first.
func Main() {
	scenario.Main()
	meter.Main()
}

// Options of a run. The zero value runs every scenario once with every backend.
type Options struct {
	// Backends that listen, 0 for all that can be opened.
	Backends backends.Set
	// Scenarios are names or patterns as of path.Match; none is all.
	Scenarios []string
	// Repeats is how often each scenario is performed, 1 if 0.
	Repeats int
	// Hold is the hold time of the queues, 250 ms if 0.
	Hold time.Duration
	// Patience is how long a scenario, and the delivery of the last events, may
	// take: 3 min if 0, which is for emulated machines.
	Patience time.Duration
	// Progress is called with a line of text as the run goes on, if not nil.
	Progress func(string)
}

func (o *Options) setDefaults() {
	if o.Backends == 0 {
		o.Backends = backends.All
	}
	if o.Repeats <= 0 {
		o.Repeats = 1
	}
	if o.Hold == 0 {
		o.Hold = 250 * time.Millisecond
	}
	if o.Patience == 0 {
		o.Patience = 3 * time.Minute
	}
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
}

// Select returns the scenarios that one of the patterns fits. A pattern that fits
// none is an error.
func Select(patterns []string) (list []scenario.Scenario, err error) {
	used := make([]bool, len(patterns))
	for _, s := range scenario.All() {
		fits := len(patterns) == 0
		for i, p := range patterns {
			ok, err := path.Match(p, s.Name)
			if err != nil {
				return nil, fmt.Errorf("scenario %q: %w", p, err)
			}
			used[i] = used[i] || ok
			fits = fits || ok
		}
		if fits {
			list = append(list, s)
		}
	}
	for i, p := range patterns {
		if !used[i] {
			return nil, fmt.Errorf("no scenario fits %q: quark-fidelity list shows them", p)
		}
	}
	return list, nil
}

// Perform runs the scenarios while all backends listen to the same events, and
// scores each.
func Perform(o Options) (*Report, error) {
	o.setDefaults()
	selected, err := Select(o.Scenarios)
	if err != nil {
		return nil, err
	}
	r := newReport()
	early, err := startEarly(selected)
	defer func() {
		for _, run := range early {
			run.Wait(0)
		}
	}()
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
		w, err := witness.Open(name, quark.Options{HoldTime: o.Hold}, true)
		if err != nil {
			r.Absent = append(r.Absent, Absence{name, err.Error()})
			continue
		}
		open = append(open, w)
		// Every process has to be known to the end of the run.
		if err := w.OpenJoined(quark.Options{HoldTime: o.Hold, CacheGraceTime: time.Hour}); err != nil {
			return nil, fmt.Errorf("open %s again: %w", name, err)
		}
	}
	if len(open) == 0 {
		return nil, fmt.Errorf("no backend can be opened: %v", r.Absent)
	}
	witness.Start(open)
	var outcomes []*scenario.Outcome
	for range o.Repeats {
		for _, s := range selected {
			o.Progress(s.Name)
			run := early[s.Name]
			if run == nil {
				if run, err = scenario.Start(s); err != nil {
					return nil, err
				}
			}
			delete(early, s.Name)
			outcome, err := witness.Perform(run, open, o.Patience)
			if err != nil {
				return nil, err
			}
			outcomes = append(outcomes, outcome...)
		}
	}
	o.Progress("the last events")
	if _, err := witness.Settle(witness.Listeners(open), o.Patience); err != nil {
		return nil, err
	}
	if err := witness.Pause(open); err != nil {
		return nil, err
	}
	for len(open) > 0 {
		w := open[0]
		open = open[1:]
		out := w.Testimony()
		stats, err := w.Close()
		if err != nil {
			return nil, err
		}
		r.add(out, &stats, outcomes)
	}
	return r, nil
}

func startEarly(list []scenario.Scenario) (map[string]*scenario.Running, error) {
	early := make(map[string]*scenario.Running)
	for _, s := range list {
		if !s.Early {
			continue
		}
		run, err := scenario.Start(s)
		if err != nil {
			return early, err
		}
		early[s.Name] = run
	}
	return early, nil
}

// Score is what a backend saw of a scenario.
type Score struct {
	Scenario string `json:"scenario"`
	Skip     string `json:"skip,omitempty"`
	score.Score
}

// add scores the outcomes for a backend.
func (r *Report) add(w *score.Witness, stats *quark.Stats, outcomes []*scenario.Outcome) {
	b := &Backend{Name: w.Backend, Lost: stats.Lost(), Cause: causes(stats), Late: stats.Late}
	b.describe(w.Table)
	at := make(map[string]*Score)
	for _, o := range outcomes {
		s := at[o.Name]
		if s == nil {
			s = &Score{Scenario: o.Name, Skip: o.Skip}
			at[o.Name] = s
			b.Scenarios = append(b.Scenarios, s)
		}
		s.Add(score.Lives(w, o.Lives))
	}
	for _, s := range b.Scenarios {
		// A storm has more events than all others together, and they are all alike.
		if s.Scenario != scenario.StormName {
			b.Total.Add(&s.Score)
		}
	}
	b.Delay = spread(b.Total.Delays)
	b.Total.Findings = nil
	r.Backends = append(r.Backends, b)
}
