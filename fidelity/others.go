package fidelity

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/quark-linux/quark/fidelity/meter"
	"github.com/quark-linux/quark/fidelity/monitor"
	"github.com/quark-linux/quark/fidelity/scenario"
	"github.com/quark-linux/quark/fidelity/score"
	"github.com/quark-linux/quark/fidelity/witness"
)

// others are the monitors that take part in a run.
type others []*other

type other struct {
	*witness.Witness
	run     *monitor.Run
	monitor *monitor.Monitor
}

// startMonitors starts all that can be.
func startMonitors(o *Options) (list others, absent []Absence) {
	together := new(monitor.Company)
	for _, m := range o.Monitors {
		o.Progress("the start of " + m.Name)
		run, err := m.Start(monitor.Options{Company: together, Patience: o.MonitorPatience})
		if err != nil {
			absent = append(absent, Absence{m.Name, err.Error()})
			continue
		}
		w := witness.New(witness.Listen(run, 0, false), nil, m.Threads)
		w.Single.Start()
		list = append(list, &other{w, run, m})
	}
	return list, absent
}

// settle waits until all have delivered their last events. Those that do not are stopped, and
// named with the reason; the others stay.
func (list *others) settle(o *Options) (absent []Absence) {
	var left others
	for _, w := range *list {
		o.Progress("the last events of " + w.monitor.Name)
		if err := w.run.Settle(); err != nil {
			n := w.run.Events()
			_, notes := w.stop()
			reason := strings.Join(append([]string{fmt.Sprintf("after %d events: %v", n, err)}, notes...), "; ")
			absent = append(absent, Absence{w.monitor.Name, reason})
			continue
		}
		left = append(left, w)
	}
	*list = left
	return absent
}

// stop ends all and returns what they delivered. After it there are none.
func (list *others) stop() (all []*heard) {
	for _, w := range *list {
		h := &heard{ready: w.run.Ready}
		h.usage, h.notes = w.stop()
		h.Witness = w.Testimony()
		// What its lines lack nothing explains but its table.
		h.Foreign, h.Unread = &w.monitor.Foreign, true
		h.stats, _ = w.run.Stats()
		all = append(all, h)
	}
	*list = nil
	return all
}

// stop ends a monitor, and the listening to it. Its events stay.
func (w *other) stop() (meter.Usage, []string) {
	u, notes := w.run.Stop()
	if err := w.Single.Pause(); err != nil {
		notes = append(notes, err.Error())
	}
	return u, notes
}

// MonitorCosts measures each monitor alone, as [Costs] does with backends. One that cannot be
// measured is named with the reason.
func MonitorCosts(o Options, n int) (list []Cost, absent []Absence) {
	o.setDefaults()
	load := scenario.Storm{Processes: n, Workers: 1, Mode: scenario.ForkExecExit, Bare: true}
	for _, m := range o.Monitors {
		o.Progress("cost of " + m.Name)
		c := Cost{Backend: m.Name, Processes: n}
		start := func() (func() (meter.Usage, error), error) {
			stop, ready, err := m.Measure()
			c.Ready = max(c.Ready, ready)
			return stop, err
		}
		err := c.measure(&o, load, func() (time.Duration, meter.Usage, error) {
			if m.Traces {
				return underTracer(load, o.Patience, start)
			}
			return meter.Under(load, o.Patience, start)
		})
		if err != nil {
			absent = append(absent, Absence{m.Name, "its cost: " + err.Error()})
			continue
		}
		list = append(list, c)
	}
	return list, absent
}

// underTracer runs a load under a monitor that has to be there before the load's processes.
func underTracer(load scenario.Storm, patience time.Duration, start func() (func() (meter.Usage, error), error)) (
	took time.Duration, u meter.Usage, err error,
) {
	stop, err := start()
	if err != nil {
		return 0, u, err
	}
	took, err = load.Time(patience, nil)
	u, err2 := stop()
	return took, u, errors.Join(err, err2)
}

// stillProcesses are those of the storm during which a monitor stands still: more than the buffers
// of most have room for.
const stillProcesses = 4000

// HonestMonitor lets a monitor stand still during a storm, and compares what it has missed with
// what it says that it has lost.
func HonestMonitor(m *monitor.Monitor, patience time.Duration) (h *Honesty, err error) {
	if m.Traces || m.Accounting || m.Blocks {
		return nil, errors.New("it cannot stand still while others go on")
	}
	run, err := m.Start(monitor.Options{})
	if err != nil {
		return nil, err
	}
	w := witness.New(witness.Listen(run, 0, false), nil, m.Threads)
	w.Single.Start()
	o := &other{w, run, m}
	stopped := false
	defer func() {
		if !stopped {
			o.stop()
		}
	}()
	s := scenario.Storm{Processes: stillProcesses, Workers: 2, Mode: scenario.ForkExecExit}
	load, err := scenario.Start(s.Scenario())
	if err != nil {
		return nil, err
	}
	if err := run.Pause(); err != nil {
		return nil, errors.Join(err, waitFor(load, patience))
	}
	outcomes, err := load.Wait(patience)
	if err := errors.Join(err, run.Resume()); err != nil {
		return nil, err
	}
	if err := run.Settle(); err != nil {
		return nil, err
	}
	_, notes := o.stop()
	stopped = true
	t := w.Testimony()
	t.Foreign, t.Unread = &m.Foreign, true
	lives, _ := scenario.ShortLives(outcomes[0].Lives)
	sc := score.Lives(t, lives)
	stats, _ := run.Stats()
	h = &Honesty{Backend: m.Name, Truth: sc.Truth, Missing: sc.Truth - sc.Seen, Reported: stats.Lost(), Foreign: true}
	h.Absent, h.AtMost = h.Missing, h.Missing
	h.Cause = strings.Join(notes, "; ")
	return h, nil
}

func waitFor(run *scenario.Running, patience time.Duration) error {
	_, err := run.Wait(patience)
	return err
}

// cpuText returns the CPU time of a monitor, and of its judge, for 1,000 events that it reported.
func (r *Report) cpuText(b *Backend) string {
	for _, m := range r.Monitors {
		if &m.Backend == b && m.Events > 0 {
			each := func(d time.Duration) time.Duration {
				return (d * 1000 / time.Duration(m.Events)).Round(100 * time.Microsecond)
			}
			return fmt.Sprintf("%v / %v", each(m.CPU), each(m.Reading+m.Matching))
		}
	}
	return "-"
}

// readyText returns how long a monitor took to be ready.
func (r *Report) readyText(b *Backend) string {
	for _, m := range r.Monitors {
		if &m.Backend == b {
			return m.Ready.Round(time.Millisecond).String()
		}
	}
	return "-"
}

// A table of few scenarios has below it what a monitor has wrong in each.
const (
	fewScenarios = 5
	fewFindings  = 3
)

// printMonitors says what the monitors have wrong, and what went wrong with them.
func (r *Report) printMonitors(out io.Writer) {
	for _, m := range r.Monitors {
		for _, note := range m.Notes {
			fmt.Fprintf(out, "%s: %s\n", m.Name, note)
		}
		var imperfect []string
		for _, s := range m.Scenarios {
			switch {
			case s.Skip != "" && len(r.Backends) > 0 && r.Backends[0].scenario(s.Scenario).Skip == "":
				fmt.Fprintf(out, "skipped with %s: %s: %s\n", m.Name, s.Scenario, s.Skip)
			case s.Perfect():
			case len(m.Scenarios) > fewScenarios:
				imperfect = append(imperfect, s.Scenario)
			default:
				fmt.Fprintf(out, "%s, %s: %s\n", m.Name, s.Scenario, &s.Score)
				for _, f := range s.Findings[:min(len(s.Findings), fewFindings)] {
					fmt.Fprintf(out, "  %s\n", f)
				}
			}
		}
		if len(imperfect) > 0 {
			fmt.Fprintf(out, "%s is not right in %d of %d scenarios: %s\n", m.Name, len(imperfect), len(m.Scenarios), strings.Join(imperfect, " "))
		}
	}
}
