package main

import (
	"strings"

	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/fidelity/recorder"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/fidelity/score"
)

// runScenarios performs the scenarios of the test while all its backends listen, and scores the
// events that each backend delivered.
func runScenarios(t *test) { t.scoreAll(t.recorders(), scenario.Of(t.row.name)...) }

// beginOlder starts the scenario whose process must be older than the shared queues.
func beginOlder(t *test) {
	shared.close(t.T)
	var err error
	if t.begun, err = scenario.Start(scenario.Of(t.row.name)[0]); err != nil {
		t.Fatalf("%v", err)
	}
}

// checkQueues checks that each of the test's queues, all of kind single, reports all events of a
// process correctly.
func (t *test) checkQueues() {
	t.markCounters()
	var all []*recorder.Recorder
	t.eachQueue(func(v *view) {
		all = append(all, recorder.New(recorder.NewListener(v.q, shortHold, true), nil, backends.ReportsThreads(v.backend)))
	})
	life, _ := scenario.Find("one-by-one")
	t.scoreAll(all, life)
	t.eachQueue(func(v *view) {
		if n := lostEvents(v.stats()) - lostEvents(v.before); n != 0 {
			v.Errorf("got %d lost events, want 0", n)
		}
	})
}

// scoreAll performs scenarios while all recorders listen, and scores the events that each backend
// delivered.
func (t *test) scoreAll(all []*recorder.Recorder, list ...scenario.Scenario) {
	before := t.lost(all)
	done := t.observe(all, list...)
	after := t.lost(all)
	for i, w := range all {
		t.score(w, done, after[i]-before[i])
	}
}

// observe performs scenarios while all recorders listen, and returns the outcomes of those that
// were not skipped.
func (t *test) observe(all []*recorder.Recorder, list ...scenario.Scenario) (done []*scenario.Outcome) {
	recorder.StartAll(all)
	t.Cleanup(func() {
		if err := recorder.PauseAll(all); err != nil {
			t.Errorf("%v", err)
		}
		for _, w := range all {
			w.Forget()
		}
	})
	var skipped []string
	for _, group := range groups(list) {
		t.Waiting("scenario " + group[0].Name)
		outcomes, err := t.perform(group, all)
		if err != nil {
			t.Fatalf("%v", err)
		}
		for _, o := range outcomes {
			if o.Skip != "" {
				t.Logf("%s is skipped: %s", o.Name, o.Skip)
				skipped = append(skipped, o.Skip)
				continue
			}
			done = append(done, o)
		}
	}
	if len(done) == 0 {
		t.Skipf("%s", strings.Join(skipped, "; "))
	}
	t.Waiting("the last events")
	if _, err := recorder.WaitDelivered(recorder.Listeners(all), done, t.deadline/3); err != nil {
		t.Fatalf("%v", err)
	}
	if err := recorder.PauseAll(all); err != nil {
		t.Fatalf("%v", err)
	}
	return done
}

// lost returns, for each recorder, the number of lost events that its queue of kind single has
// counted.
func (t *test) lost(all []*recorder.Recorder) (n []uint64) {
	for _, w := range all {
		s, err := w.Single.Queue.Stats()
		if err != nil {
			t.Fatalf("%s: %v", w.Backend, err)
		}
		n = append(n, s.Lost())
	}
	return n
}

// groups divides scenarios into groups that one process performs, because starting a process takes
// 50 ms on an emulated machine.
func groups(list []scenario.Scenario) (all [][]scenario.Scenario) {
	alone := func(s scenario.Scenario) bool { return s.Early || s.Unread }
	for i, s := range list {
		if i > 0 && !alone(s) && !alone(list[i-1]) {
			last := len(all) - 1
			all[last] = append(all[last], s)
			continue
		}
		all = append(all, []scenario.Scenario{s})
	}
	return all
}

// perform performs scenarios.
func (t *test) perform(group []scenario.Scenario, all []*recorder.Recorder) ([]*scenario.Outcome, error) {
	run := t.begun
	if run == nil {
		var err error
		if run, err = scenario.Start(group[0], group[1:]...); err != nil {
			return nil, err
		}
	}
	return recorder.RunScenarios(run, all, t.deadline*3/5)
}

// score compares the events that a recorder got with the ground truth. Events of a storm may be
// missing, up to the number that the queue has counted as lost.
func (t *test) score(w *recorder.Recorder, done []*scenario.Outcome, lost uint64) {
	seen, c := w.Delivered(), t.cell(w.Backend)
	for _, o := range done {
		s := score.ComputeFor(seen, o.Processes, o.All)
		c.Logf("%s: %s", o.Name, s)
		if what, _ := scenario.Find(o.Name); what.Quick && s.Joined+s.Unjoined == 0 && seen.Clock == nil {
			c.Errorf("%s: no process lived for less than half the hold time of %v, so the test shows nothing about joining",
				o.Name, joinedHold)
		}
		switch {
		case s.Perfect():
			continue
		case o.Name == scenario.StormName && s.PerfectBut(lost):
			c.Logf("%s: %d events are counted as lost", o.Name, lost)
			continue
		}
		for _, f := range s.Findings {
			c.Logf("%s: %s", o.Name, f)
		}
		c.Errorf("%s: %s", o.Name, s)
	}
}

// recorders returns the recorders of the test's remaining backends.
func (t *test) recorders() (list []*recorder.Recorder) {
	for _, w := range shared.recorders {
		if t.cell(w.Backend) != nil {
			list = append(list, w)
		}
	}
	if len(list) == 0 {
		panic(stop{})
	}
	return list
}

// recordersOf returns a recorder for each backend that has both queues.
func recordersOf(singles, joineds []*view) (list []*recorder.Recorder) {
	for _, s := range singles {
		for _, j := range joineds {
			if j.backend == s.backend {
				list = append(list, recorder.New(
					recorder.NewListener(s.q, shortHold, true), recorder.NewListener(j.q, joinedHold, true), backends.ReportsThreads(s.backend)))
			}
		}
	}
	return list
}
