package bench

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf"

	"github.com/quark-linux/quark/fidelity/meter"
	"github.com/quark-linux/quark/fidelity/monitor"
	"github.com/quark-linux/quark/fidelity/recorder"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/fidelity/score"
)

// Load is a kind of load, under which a row was measured.
type Load string

const (
	Rate    Load = "rate"    // processes at a rate, started by one worker a CPU
	Full    Load = "full"    // as many processes as one worker a CPU can start
	Paused  Load = "paused"  // like full, while the monitor is stopped
	BPF     Load = "bpf"     // a rate, while the kernel counts eBPF run time
	Library Load = "library" // like bpf, under a backend that only counts events
)

// load is a load that runs in each turn.
type load struct {
	kind  Load
	storm scenario.Storm
}

const (
	// endless is the value of Processes for a storm that ends after its Length.
	endless = 1 << 30
	// patience limits the duration of a storm. A storm normally ends by itself.
	patience = 3 * time.Minute
)

// loads returns the loads for a machine that runs top processes per second. Costs are compared at
// the first rate.
func loads(top float64, cpus int, quick bool) (list []load) {
	length, rates := 500*time.Millisecond, []int{1000, 4000, 16000, 64000}
	if quick {
		length, rates = 200*time.Millisecond, rates[:1]
	}
	rates = slices.DeleteFunc(slices.Clone(rates), func(rate int) bool { return float64(rate) >= 0.9*top })
	if len(rates) == 0 {
		rates = []int{max(1, int(top/2))}
	}
	// Minimum numbers of processes of a load. With fewer, the fixed work of a monitor would be
	// most of its cost.
	const paced, full = 40, 200
	storm := func(rate, processes int) scenario.Storm {
		least := float64(processes) / max(1, cmp.Or(float64(rate), top))
		return scenario.Storm{Processes: endless, Workers: cpus, Rate: rate, Length: max(length, time.Duration(least*float64(time.Second)))}
	}
	for _, rate := range rates {
		list = append(list, load{Rate, storm(rate, paced)})
	}
	return append(list, load{Full, storm(0, full)}, load{Paused, storm(0, full)},
		load{BPF, storm(rates[0], paced)}, load{Library, storm(rates[0], paced)})
}

// turn is one participant's part of a repeat.
type turn struct {
	*benchmark
	*participant
	n        int // of the repeat
	alone    float64
	running  *monitor.Run
	witness  *recorder.Recorder
	programs []ebpf.ProgramID
}

// run starts the monitor, runs all loads under it and ends it.
func (t *turn) run() (err error) {
	if t.running, err = t.Start(monitor.Options{}); err != nil {
		return err
	}
	t.programs = t.running.Programs()
	t.witness = recorder.New(recorder.NewListener(t.running, 0, false), nil, t.Threads)
	t.witness.Single.Start()
	err = t.each()
	events := t.running.Events()
	_, notes := t.running.Stop()
	pauseErr := t.witness.Single.Pause()
	if err != nil {
		return fmt.Errorf("after %d events: %s", events, strings.Join(append([]string{err.Error()}, notes...), "; "))
	}
	for _, note := range notes {
		if err := t.put(line{Note: t.Name + ": " + note}); err != nil {
			return err
		}
	}
	return pauseErr
}

func (t *turn) each() error {
	for _, l := range t.loads {
		measure := t.measure
		switch {
		case l.kind == Library && !t.own, l.kind == BPF && len(t.programs) == 0,
			l.kind == Paused && (t.Traces || t.Accounting || t.Blocks):
			continue // such a monitor would let the processes wait
		case l.kind == Library:
			measure = t.library
		}
		row, err := measure(l)
		if err != nil {
			return fmt.Errorf("load %s: %w", l.kind, err)
		}
		row.Participant, row.Repeat, row.Load, row.Rate = t.Name, t.n, l.kind, l.storm.Rate
		if err := t.put(line{Row: row}); err != nil {
			return err
		}
	}
	return nil
}

// measure runs a load under the monitor.
func (t *turn) measure(l load) (*Row, error) {
	t.witness.Forget()
	// The monitor's output is decoded after the load, so that it takes no CPU time meanwhile.
	t.running.Hold()
	defer t.running.Release()
	if l.kind == BPF {
		counting, err := meter.CountRunTime()
		if err != nil {
			return nil, err
		}
		defer counting.Close()
	}
	begin, end := func() error { return nil }, func() error { return nil }
	if l.kind == Paused {
		begin, end = t.running.Pause, t.running.Resume
	}
	before, ran := t.running.Usage(), meter.RunTime(t.programs)
	processes, rate, err := l.storm.Run(patience, begin)
	if err := errors.Join(err, end()); err != nil {
		return nil, err
	}
	t.running.Release()
	if err := t.running.WaitDelivered(); err != nil {
		return nil, err
	}
	after := t.running.Usage()
	row := &Row{
		Offered: rate, Lost: after.Lost - before.Lost, CPU: after.CPU - before.CPU, BPF: meter.RunTime(t.programs) - ran,
		RSS: after.RSS, Ready: t.running.Ready,
	}
	if l.kind == Full {
		row.Alone = t.alone
	}
	if err := t.witness.Single.Pause(); err != nil {
		return nil, err
	}
	heard := t.witness.Delivered()
	t.witness.Single.Start()
	heard.Foreign, heard.Unread = &t.Foreign, true
	sc := score.Compute(heard, processes)
	all := sc.All()
	row.Processes, row.Events, row.Seen = len(processes), sc.Truth, sc.Seen
	row.Wrong = sc.Phantoms + sc.Duplicates + sc.Inversions + sc.Stamp.Wrong + all.Wrong + all.Stale
	return row, nil
}

// library runs a load under a process that counts the events of the backend and prints none.
func (t *turn) library(l load) (*Row, error) {
	counter, err := meter.Start(t.Name)
	if err != nil {
		return nil, err
	}
	processes, rate, err := l.storm.Run(patience, nil)
	u, err2 := counter.Stop()
	return &Row{Processes: len(processes), Offered: rate, Lost: u.Lost, CPU: u.CPU, RSS: u.RSS, Ready: u.Open}, errors.Join(err, err2)
}
