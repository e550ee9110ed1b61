package bench

import (
	"cmp"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf"

	"github.com/quark-linux/quark/fidelity/meter"
	"github.com/quark-linux/quark/fidelity/monitor"
	"github.com/quark-linux/quark/fidelity/recorder"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/fidelity/score"
	"github.com/quark-linux/quark/fidelity/truth"
)

// Load is a kind of load, under which a row was measured.
type Load string

const (
	Rate     Load = "rate"     // processes at a rate, started by one worker a CPU
	Full     Load = "full"     // as many processes as one worker a CPU can start
	Parallel Load = "parallel" // likewise, by a number of workers
	Paused   Load = "paused"   // like full, while the monitor is stopped
	Rare     Load = "rare"     // rare processes beside many others
	Slowed   Load = "slowed"   // likewise, while the monitor runs for a fifth of the time
	BPF      Load = "bpf"      // a rate, while the kernel counts eBPF run time
	Library  Load = "library"  // like bpf, under a backend that only counts events
	Ring     Load = "ring"     // like library, while the backend is stopped; Row.Ring
	Build    Load = "build"    // Options.Build
)

// load is a load that runs in each turn.
type load struct {
	kind   Load
	storm  scenario.Storm
	beside scenario.Storm // runs at the same time; its processes do not count
	ring   int            // size of eBPF's ring in bytes, 0 for the default
	build  string         // a command in place of the storm
}

// run runs the load, and returns its processes and their number per second; for a build, the number
// of builds per second. begin is called when the load is ready.
func (l *load) run(begin func() error) ([]*truth.Process, float64, error) {
	switch {
	case l.build != "":
		if err := begin(); err != nil {
			return nil, 0, err
		}
		began := time.Now()
		text, err := exec.Command("sh", "-c", l.build).CombinedOutput()
		if err != nil {
			return nil, 0, fmt.Errorf("%q: %w: %s", l.build, err, text[max(0, len(text)-1000):])
		}
		return nil, 1 / time.Since(began).Seconds(), nil
	case l.beside.Workers == 0:
		return l.storm.Run(patience, begin)
	}
	var others *scenario.Running
	processes, rate, err := l.storm.Run(patience, func() (err error) {
		if others, err = scenario.Start(l.beside.Scenario()); err != nil {
			return err
		}
		return begin()
	})
	if others != nil {
		_, waitErr := others.Wait(patience)
		err = errors.Join(err, waitErr)
	}
	return processes, rate, err
}

const (
	// endless is the value of Processes for a storm that ends after its Length.
	endless = 1 << 30
	// patience limits the duration of a storm. A storm normally ends by itself.
	patience = 3 * time.Minute
)

// loads returns the loads for a machine that runs top processes per second. Costs are compared at
// the first rate.
func loads(top float64, cpus int, quick bool, build string) (list []load) {
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
		list = append(list, load{kind: Rate, storm: storm(rate, paced)})
	}
	list = append(list, load{kind: Full, storm: storm(0, full)}, load{kind: Paused, storm: storm(0, full)},
		load{kind: BPF, storm: storm(rates[0], paced)}, load{kind: Library, storm: storm(rates[0], paced)})
	if build != "" {
		list = append(list, load{kind: Build, build: build})
	}
	if quick {
		return list
	}
	for _, workers := range []int{1, 4, 16} {
		l := load{kind: Parallel, storm: storm(0, full)}
		l.storm.Workers = workers
		list = append(list, l)
	}
	for _, mib := range []int{1, 2, 4, 16} {
		list = append(list, load{kind: Ring, storm: storm(0, full), ring: mib << 20})
	}
	// As in NODROP (USENIX Security 2023): few processes of interest, and a producer of many.
	rare := scenario.Storm{Processes: endless, Workers: 1, Rate: 50, Length: 2 * length}
	many := scenario.Storm{Processes: endless, Workers: 8 * cpus, Length: 2 * length}
	return append(list, load{kind: Rare, storm: rare, beside: many}, load{kind: Slowed, storm: rare, beside: many})
}

// turn is one participant's part of a repeat.
type turn struct {
	*benchmark
	*participant
	n        int // of the repeat
	alone    map[Load]float64
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
		case l.kind == Library && !t.own, l.kind == Ring && !t.own, (l.kind == BPF || l.kind == Ring) && len(t.programs) == 0,
			(l.kind == Paused || l.kind == Slowed) && (t.Traces || t.Accounting || t.Blocks):
			continue // such a monitor would let the processes wait
		case l.kind == Library, l.kind == Ring:
			measure = t.library
		}
		row, err := measure(l)
		if err != nil {
			return fmt.Errorf("load %s: %w", l.kind, err)
		}
		row.Participant, row.Repeat, row.Load, row.Rate = t.Name, t.n, l.kind, l.storm.Rate
		row.Workers, row.Ring = l.storm.Workers, l.ring
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
	switch l.kind {
	case Paused:
		begin, end = t.running.Pause, t.running.Resume
	case Slowed:
		end = t.slow()
	}
	before, ran, written := t.running.Usage(), meter.RunTime(t.programs), t.running.Written()
	processes, rate, err := l.run(begin)
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
		RSS: after.RSS, Ready: t.running.Ready, Output: t.running.Written() - written, Alone: t.alone[l.kind],
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

// slow lets the monitor run for 20 ms of each 100 ms, as the kernel does with a control group that
// has a fifth of a CPU, until end is called.
func (t *turn) slow() (end func() error) {
	stop, ended := make(chan struct{}), make(chan error, 1)
	pass := func(d time.Duration) bool {
		select {
		case <-time.After(d):
			return true
		case <-stop:
			return false
		}
	}
	go func() {
		var err error
		for more := true; more && err == nil; {
			err = t.running.Pause()
			more = pass(80 * time.Millisecond)
			err = errors.Join(err, t.running.Resume())
			more = more && pass(20*time.Millisecond)
		}
		ended <- err
	}()
	return func() error {
		close(stop)
		return <-ended
	}
}

// library runs a load under a process that counts the events of the backend and prints none.
func (t *turn) library(l load) (*Row, error) {
	counter, err := meter.Start(t.Name, l.ring)
	if err != nil {
		return nil, err
	}
	begin, end := func() error { return nil }, func() error { return nil }
	if l.kind == Ring {
		begin, end = counter.Pause, counter.Resume
	}
	processes, rate, err := l.run(begin)
	err = errors.Join(err, end())
	u, err2 := counter.Stop()
	return &Row{Processes: len(processes), Offered: rate, Events: int(u.Raw + u.Lost), Seen: int(u.Raw), Lost: u.Lost, CPU: u.CPU, RSS: u.RSS, Ready: u.Open},
		errors.Join(err, err2)
}
