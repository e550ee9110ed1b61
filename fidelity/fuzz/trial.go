package fuzz

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"time"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity"
	"github.com/quark-linux/quark/fidelity/recorder"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/fidelity/score"
	"github.com/quark-linux/quark/fidelity/truth"
)

// trialEnv is the environment variable that makes Main run the monitor of a trial. The monitor is a
// separate process, so the fuzzer can pause it and survives its crash.
const trialEnv = "QUARK_FIDELITY_TRIAL"

// Main runs the parts of the suite that are processes of this program, and then does not return. A
// program that uses this package calls it first.
func Main() {
	if os.Getenv(trialEnv) != "" {
		os.Unsetenv(trialEnv) // the scenarios' processes must not inherit it
		if err := runTrial(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	fidelity.Main()
}

func runTrial(in io.Reader, out io.Writer) error {
	t, to := new(trial), json.NewEncoder(out)
	if err := json.NewDecoder(in).Decode(t); err != nil {
		return err
	}
	r, err := t.execute(func() { to.Encode(struct{}{}) })
	if err != nil {
		return err
	}
	return to.Encode(r)
}

// trial is one run of scripts while backends listen.
type trial struct {
	Backends backends.Set
	Hold     time.Duration
	Patience time.Duration
	Scripts  []string // files
	Faults   Faults
}

type result struct {
	Processes int
	Events    int // scored events of all queues
	Lost      uint64
	Defects   []defect
	Absent    []string // backends that cannot be opened, with reasons
}

// defect lists the wrong reports and uncounted losses of one backend for one script.
type defect struct {
	Backend  string
	Script   int // index; -1 for no single script
	Findings []string
}

func (r *result) add(backend string, script int, findings ...string) {
	r.Defects = append(r.Defects, defect{backend, script, findings})
}

// directors is the number of processes that run the scripts in parallel.
const directors = 3

// execute runs the trial in this process, and calls announce when its processes begin and when they
// have ended.
func (t *trial) execute(announce func()) (r *result, err error) {
	r = new(result)
	var all []*recorder.Recorder
	defer func() {
		for _, w := range all {
			_, err2 := w.Close()
			err = errors.Join(err, err2)
		}
	}()
	if t.Faults.Open == 0 {
		if all, err = t.open(r); err != nil {
			return nil, err
		}
	}
	wait := t.start(all)
	announce()
	began := time.Now()
	if t.Faults.Open != 0 {
		time.Sleep(t.Faults.Open)
		all, err = t.open(r)
	}
	if err == nil && t.Faults.Drain != 0 {
		time.Sleep(t.Faults.Drain - time.Since(began))
		for _, w := range all {
			err = errors.Join(err, w.Drain(t.Patience))
		}
	}
	outcomes, err2 := wait()
	announce()
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	if t.Faults.Drain == 0 {
		if err := t.waitBalanced(r, all, outcomes); err != nil {
			return nil, err
		}
	}
	for _, w := range all {
		if err := t.scoreBackend(r, w, outcomes); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// open opens the queues of all backends, and reads them.
func (t *trial) open(r *result) (all []*recorder.Recorder, err error) {
	opts := quark.Options{HoldTime: t.Hold}
	t.Faults.apply(&opts)
	all, absent, err := fidelity.OpenRecorders(t.Backends, opts)
	if err != nil {
		return all, err
	}
	for _, a := range absent {
		r.Absent = append(r.Absent, a.Backend+": "+a.Reason)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no backend can be opened: %q", r.Absent)
	}
	recorder.StartAll(all)
	return all, nil
}

// start starts the directors, each with its share of the scripts. The returned function waits for
// the outcomes, in the order of the scripts.
func (t *trial) start(all []*recorder.Recorder) func() ([]*scenario.Outcome, error) {
	outcomes := make([]*scenario.Outcome, len(t.Scripts))
	var ended []chan error
	for d := range min(directors, len(t.Scripts)) {
		var own []scenario.Scenario
		for i := d; i < len(t.Scripts); i += directors {
			own = append(own, scenario.FromFile(t.Scripts[i]))
		}
		end := make(chan error, 1)
		ended = append(ended, end)
		run, err := scenario.Start(own[0], own[1:]...)
		if err != nil {
			end <- err
			continue
		}
		go func() {
			list, err := t.wait(run, all)
			for i, o := range list {
				outcomes[d+i*directors] = o
			}
			end <- err
		}()
	}
	return func() (_ []*scenario.Outcome, err error) {
		for _, end := range ended {
			err = errors.Join(err, <-end)
		}
		return outcomes, err
	}
}

// wait waits for the processes of one director. With faults, paused processes do not wait until the
// queues are read.
func (t *trial) wait(run *scenario.Running, all []*recorder.Recorder) ([]*scenario.Outcome, error) {
	if t.Faults != (Faults{}) {
		return run.Wait(t.Patience)
	}
	return recorder.RunScenarios(run, all, t.Patience)
}

// damage, if not nil, changes delivered events before scoring, for tests.
var damage func(*score.Delivered)

func (t *trial) scoreBackend(r *result, w *recorder.Recorder, outcomes []*scenario.Outcome) error {
	delivered := w.Delivered()
	if t.Faults.Length != 0 {
		delivered.JoinedHold = 1 // as a full queue delivers at once
	}
	single, err := w.Single.Queue.Stats()
	joined, err2 := w.Joined.Queue.Stats()
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	delivered.Cut = delivered.Table.SplitRecords && (t.Faults.Ring != 0 || single.Source.Lost[engine.LossRingFull]+joined.Source.Lost[engine.LossRingFull] > 0)
	if damage != nil {
		damage(delivered)
	}
	var processes []*truth.Process
	for i, o := range outcomes {
		if i < directors {
			processes = append(processes, o.All...)
		}
	}
	r.Processes += len(processes)
	r.Lost += single.Lost() + joined.Lost()
	lost := single.Lost()
	if single.Source.Bound {
		lost = math.MaxUint64
	}
	fine := func(s *score.Score) bool {
		// With a full buffer or an orderly end, a queue delivers some events too early and
		// counts these as late.
		if (t.Faults.Length != 0 || t.Faults.Drain != 0) && uint64(s.Inversions) <= single.Late+joined.Late {
			s.Inversions = 0
		}
		return s.PerfectBut(lost)
	}
	total := score.Compute(delivered, processes)
	r.Events += total.Seen
	if fine(total) {
		return nil
	}
	counted := fmt.Sprintf("%s; %d in gaps, %d counted as lost", total, total.Lost, single.Lost())
	whose := -1
	for i, o := range outcomes {
		own := slices.DeleteFunc(slices.Clone(o.Processes), func(l *truth.Process) bool { return l.PID == o.Director })
		if s := score.ComputeFor(delivered, own, processes); !fine(s) {
			whose = i
			r.add(w.Backend, i, append(s.Findings, s.String())...)
		}
	}
	if whose < 0 {
		r.add(w.Backend, -1, append(total.Findings, counted)...)
	}
	return nil
}

// waitBalanced waits for the last events, and until all produced events were delivered or lost.
func (t *trial) waitBalanced(r *result, all []*recorder.Recorder, done []*scenario.Outcome) error {
	list := recorder.Listeners(all)
	lost := make([]engine.SourceStats, len(list)) // before the last events
	for i, l := range list {
		s, err := l.Queue.Stats()
		if err != nil {
			return err
		}
		lost[i] = s.Source
	}
	if _, err := recorder.WaitDelivered(list, done, t.Patience); err != nil {
		return err
	}
	for _, l := range list {
		s, ok, err := l.Balanced(t.Patience)
		if err != nil {
			return err
		}
		if !ok {
			r.add(l.Queue.Backend(), -1, fmt.Sprintf("%d events produced, %d read, %d lost", s.Source.Produced, s.Insertions, s.Lost()))
		}
	}
	if err := recorder.PauseAll(all); err != nil {
		return err
	}
	for i, l := range list {
		if err := t.checkGaps(r, l, &lost[i]); err != nil {
			return err
		}
	}
	return nil
}

// checkGaps compares the delivered gaps with the counted losses. Each loss that was counted before
// the last events must be in a gap. The gaps must not exceed the counts.
func (t *trial) checkGaps(r *result, l *recorder.Listener, before *engine.SourceStats) error {
	after, err := l.Queue.Stats()
	if err != nil {
		return err
	}
	var inGaps, gaps [engine.NumLosses]uint64
	for _, s := range l.Seen() {
		if s.Events == engine.EventGap {
			inGaps[s.Gap.Cause] += s.Gap.Count
			gaps[s.Gap.Cause]++
		}
	}
	for c := range engine.Loss(engine.NumLosses) {
		if inGaps[c] > after.Source.Lost[c] || before.Lost[c] > 0 && gaps[c] == 0 {
			r.add(l.Queue.Backend(), -1, fmt.Sprintf("%s: %d events were counted as lost, %d in %d gaps", c, after.Source.Lost[c], inGaps[c], gaps[c]))
		}
	}
	return nil
}
