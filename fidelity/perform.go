// Package fidelity compares the events of each backend with ground truth. The processes of
// scenarios (package scenario) record their own events while all backends listen. Package score
// compares these records with the events of each backend, and defines the figures.
//
// [RunScenarios] runs the scenarios. A difference between a backend and ground truth is either
// explained by the backend's capability table or a defect: see [score.Score.Perfect].
package fidelity

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/meter"
	"github.com/quark-linux/quark/fidelity/monitor"
	"github.com/quark-linux/quark/fidelity/monitor/supervisor"
	"github.com/quark-linux/quark/fidelity/recorder"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/fidelity/score"
)

// Main runs the parts of the suite that are processes of this program, and then does not return. A
// program that uses this package calls it first.
func Main() {
	scenario.Main()
	meter.Main()
	supervisor.Main()
}

// Options are the options of a run. The zero value runs every scenario once with every backend.
type Options struct {
	// Backends listen to the scenarios. Zero means all that can be opened.
	Backends backends.Set
	// Monitors are other programs that watch the same processes.
	Monitors []*monitor.Monitor
	// Scenarios are names or patterns of path.Match. An empty list means all.
	Scenarios []string
	// Repeats is the number of runs of each scenario, default 1.
	Repeats int
	// Hold is the hold time of the queues, default 250 ms.
	Hold time.Duration
	// Patience limits the duration of a scenario, and of the delivery of the last events.
	// Default 3 min, which suffices for emulated machines.
	Patience time.Duration
	// MonitorPatience is the Patience of [monitor.Options].
	MonitorPatience time.Duration
	// Progress, if not nil, is called with the name of each step.
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

// Select returns the scenarios that match one of the patterns. A pattern without a match is an
// error.
func Select(patterns []string) (list []scenario.Scenario, err error) {
	used := make([]bool, len(patterns))
	for _, s := range scenario.All() {
		matches := len(patterns) == 0
		for i, p := range patterns {
			ok, err := path.Match(p, s.Name)
			if err != nil {
				return nil, fmt.Errorf("scenario %q: %w", p, err)
			}
			used[i] = used[i] || ok
			matches = matches || ok
		}
		if matches {
			list = append(list, s)
		}
	}
	for i, p := range patterns {
		if !used[i] {
			return nil, fmt.Errorf("no scenario matches %q: see quark-fidelity list", p)
		}
	}
	return list, nil
}

// RunScenarios runs the scenarios while all backends listen to the same events, and scores the
// events of each backend.
func RunScenarios(o Options) (*Report, error) {
	o.setDefaults()
	selected, err := Select(o.Scenarios)
	if err != nil {
		return nil, err
	}
	r := newReport()
	if r.Absent, err = listen(&o, selected, r.add); err != nil {
		return nil, err
	}
	return r, nil
}

// recording has the events of one backend or monitor.
type recording struct {
	*score.Delivered
	stats    quark.Stats
	outcomes []*scenario.Outcome
	notes    []string // failures of a monitor
}

// listen runs scenarios while all backends and monitors listen, and calls each with the recording
// of each of them. A monitor that changes what others observe runs alone.
func listen(o *Options, selected []scenario.Scenario, each func(*recording)) (absent []Absence, err error) {
	together, alone := *o, []*monitor.Monitor(nil)
	together.Monitors = nil
	for _, m := range o.Monitors {
		if m.Apart {
			alone = append(alone, m)
		} else {
			together.Monitors = append(together.Monitors, m)
		}
	}
	if absent, err = listenTogether(&together, selected, each); err != nil {
		return absent, err
	}
	for _, m := range alone {
		one := *o
		one.Backends, one.Monitors = 0, []*monitor.Monitor{m}
		more, err := listenTogether(&one, selected, each)
		if absent = append(absent, more...); err != nil {
			absent = append(absent, Absence{m.Name, err.Error()})
		}
	}
	return absent, nil
}

func listenTogether(o *Options, selected []scenario.Scenario, each func(*recording)) (absent []Absence, err error) {
	early := make(map[string]*scenario.Running) // started before the queues are opened
	defer func() {
		for _, run := range early {
			run.Wait(0)
		}
	}()
	traced := slices.ContainsFunc(o.Monitors, func(m *monitor.Monitor) bool { return m.Traces })
	var list others
	defer func() { list.stop() }()
	if traced { // a tracer follows only children that start after it
		list, absent = startMonitors(o)
	}
	for _, s := range selected {
		if s.Early && !(traced && s.Tracer) {
			if early[s.Name], err = scenario.Start(s); err != nil {
				delete(early, s.Name)
				return nil, err
			}
		}
	}
	open, missing, err := OpenRecorders(o.Backends, quark.Options{HoldTime: o.Hold})
	defer func() { // after an error some are left
		for _, w := range open {
			w.Close()
		}
	}()
	if err != nil {
		return nil, err
	}
	absent = append(absent, missing...)
	if !traced && len(o.Monitors) > 0 {
		// Read the queues meanwhile, as a hanging monitor would let them overflow.
		recorder.StartAll(open)
		list, missing = startMonitors(o)
		absent = append(absent, missing...)
		if err := recorder.PauseAll(open); err != nil {
			return nil, err
		}
		for _, w := range open {
			w.Forget()
		}
	}
	switch {
	case len(open)+len(list) > 0:
	case o.Backends == 0:
		return absent, nil
	default:
		return nil, fmt.Errorf("no backend can be opened: %v", absent)
	}
	recorder.StartAll(open)
	var outcomes []*scenario.Outcome
	for range o.Repeats {
		for _, s := range selected {
			o.Progress(s.Name)
			if traced && s.Tracer {
				outcomes = append(outcomes, &scenario.Outcome{Name: s.Name, Skip: "it needs a tracer of its own"})
				continue
			}
			run := early[s.Name]
			if run == nil {
				if run, err = scenario.Start(s); err != nil {
					return nil, err
				}
			}
			delete(early, s.Name)
			outcome, err := recorder.RunScenarios(run, open, o.Patience)
			if err != nil && traced {
				outcome, err = []*scenario.Outcome{{Name: s.Name, Skip: err.Error()}}, nil
			}
			if err != nil {
				return nil, err
			}
			outcomes = append(outcomes, outcome...)
		}
	}
	o.Progress("the last events")
	if len(open) > 0 {
		_, err = recorder.WaitDelivered(recorder.Listeners(open), outcomes, o.Patience)
	}
	absent = append(absent, list.waitDelivered(o)...)
	if err := errors.Join(err, recorder.PauseAll(open)); err != nil {
		return nil, err
	}
	for len(open) > 0 {
		h := &recording{Delivered: open[0].Delivered(), outcomes: outcomes}
		w := open[0]
		open = open[1:]
		if h.stats, err = w.Close(); err != nil {
			return nil, err
		}
		each(h)
	}
	for _, h := range list.stop() {
		h.outcomes = outcomes
		each(h)
	}
	return absent, nil
}

// OpenRecorders opens two queues of each backend that works here.
func OpenRecorders(set backends.Set, opts quark.Options) (open []*recorder.Recorder, absent []Absence, err error) {
	opts.CacheGraceTime = time.Hour // lookups at the end of the run must find every process
	for _, name := range set.Names() {
		own, threads := opts, backends.ReportsThreads(name)
		own.MinAgg, own.Threads = true, threads
		single, err := OpenQueue(name, own, true)
		if err != nil {
			absent = append(absent, Absence{name, err.Error()})
			continue
		}
		joined, err := OpenQueue(name, opts, true)
		if err != nil {
			_, err2 := single.Close()
			return open, nil, fmt.Errorf("open %s again: %w", name, errors.Join(err, err2))
		}
		open = append(open, recorder.New(single, joined, threads))
	}
	return open, absent, nil
}

// OpenQueue opens a queue of one backend for a listener. With lookup the listener looks up each
// process.
func OpenQueue(backend string, opts quark.Options, lookup bool) (*recorder.Listener, error) {
	set, err := backends.Parse(backend)
	if err != nil {
		return nil, err
	}
	// Kinds that slow all system calls down must be named.
	opts.Backends, opts.Strict, opts.Kinds = set, true, cmp.Or(opts.Kinds, source.DefaultKinds)
	q, err := quark.Open(opts)
	if err != nil {
		// Only one attempt was made, so the list of attempts would be noise.
		var all *backends.Error
		if errors.As(err, &all) && len(all.Attempts) == 1 {
			return nil, all.Attempts[0].Err
		}
		return nil, err
	}
	return recorder.NewListener(q, opts.HoldTime, lookup), nil
}

// Score is the score of a backend in a scenario.
type Score struct {
	Scenario string `json:"scenario"`
	Skip     string `json:"skip,omitempty"`
	score.Score
}

// add scores a backend or a monitor in all outcomes and adds it to the report.
func (r *Report) add(h *recording) {
	b := &Backend{Name: h.Backend, Lost: h.stats.Lost(), Cause: causes(&h.stats)}
	b.describe(h.Table)
	at := make(map[string]*Score)
	for _, o := range h.outcomes {
		s := at[o.Name]
		if s == nil {
			s = &Score{Scenario: o.Name, Skip: o.Skip}
			at[o.Name] = s
			b.Scenarios = append(b.Scenarios, s)
		}
		s.Add(score.Compute(h.Delivered, o.Processes))
	}
	for _, s := range b.Scenarios {
		// The storm has more events than all other scenarios together, and they are all
		// alike.
		if s.Scenario != scenario.StormName {
			b.Total.Add(&s.Score)
		}
	}
	b.Delay = spread(b.Total.Delays)
	b.Total.Findings = nil
	if h.Foreign != nil {
		r.Monitors = append(r.Monitors, &Monitor{Backend: *b, Notes: h.notes})
		return
	}
	r.Backends = append(r.Backends, b)
}

func causes(s *quark.Stats) string {
	var list []string
	for l, n := range s.Source.Lost {
		if n > 0 {
			list = append(list, fmt.Sprintf("%s=%d", engine.Loss(l), n))
		}
	}
	return strings.Join(list, " ")
}
