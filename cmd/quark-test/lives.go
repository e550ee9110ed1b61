package main

import (
	"strings"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/fidelity/recorder"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/fidelity/score"
)

// lives performs the scenarios of the test while all its backends listen, and scores
// what each of them delivered.
func lives(t *test) { t.scoreAll(t.witnesses(), scenario.Of(t.row.name)...) }

// older does what lives does, with a process that is older than the queues.
func older(t *test) {
	list := scenario.Of(t.row.name)
	var err error
	if t.begun, err = scenario.Start(list[0], list[1:]...); err != nil {
		t.Fatalf("%v", err)
	}
	t.livesWith(func(*quark.Options) {})
}

// failedExecs does what lives does, with queues that report failed execs.
func failedExecs(t *test) { t.livesWith(func(o *quark.Options) { o.FailedExecs = true }) }

// environment does what lives does, with queues that report some variables.
func environment(t *test) { t.livesWith(func(o *quark.Options) { o.Environ = scenario.Environ }) }

// livesWith does what lives does, with queues of other options.
func (t *test) livesWith(set func(*quark.Options)) {
	open := func(kind string) []*view {
		opts := options(kind)
		set(&opts)
		return t.openEach(opts)
	}
	t.scoreAll(witnessesOf(open(single), open(joined)), scenario.Of(t.row.name)...)
}

// wantWorking checks that what each of the test's queues, which are of the kind single, reports
// of a whole process is right, and that no event is lost.
func (t *test) wantWorking() {
	t.mark()
	var all []*recorder.Recorder
	t.each(func(v *view) {
		all = append(all, recorder.New(recorder.NewListener(v.q, shortHold, true), nil, backends.ReportsThreads(v.backend)))
	})
	life, _ := scenario.Find("one-by-one")
	t.scoreAll(all, life)
	t.each(func(v *view) {
		if n := lost(v.stats()) - lost(v.before); n != 0 {
			v.Errorf("%d lost", n)
		}
	})
}

// scoreAll performs scenarios while witnesses listen, and scores what each of them delivered.
func (t *test) scoreAll(all []*recorder.Recorder, list ...scenario.Scenario) {
	before := t.lost(all)
	done := t.observe(all, list...)
	after := t.lost(all)
	for i, w := range all {
		t.score(w, done, after[i]-before[i])
	}
}

// observe performs scenarios while witnesses listen, and returns those that were not skipped.
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

// lost returns how many events the queue of each witness that reports each event by itself
// has counted as lost.
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

// groups divides scenarios into those that one process performs, which spares starting
// it for each: a machine that is emulated needs 50 ms for that.
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

// score compares what a witness delivered with what happened. Events of a storm may be
// missing, at most as many as its queue has counted as lost.
func (t *test) score(w *recorder.Recorder, done []*scenario.Outcome, lost uint64) {
	seen, c := w.Delivered(), t.cell(w.Backend)
	for _, o := range done {
		s := score.ComputeFor(seen, o.Processes, o.All)
		c.Logf("%s: %s", o.Name, s)
		if what, _ := scenario.Find(o.Name); what.Quick && s.Joined+s.Unjoined == 0 && seen.Clock == nil {
			c.Errorf("%s: no process lived for less than half the hold time of %v, so that nothing shows how events are joined",
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

// witnesses returns the remaining backends of the test.
func (t *test) witnesses() (list []*recorder.Recorder) {
	for _, w := range shared.witnesses {
		if t.cell(w.Backend) != nil {
			list = append(list, w)
		}
	}
	if len(list) == 0 {
		panic(stop{})
	}
	return list
}

// witnessesOf returns the backends that have both queues.
func witnessesOf(singles, joineds []*view) (list []*recorder.Recorder) {
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
