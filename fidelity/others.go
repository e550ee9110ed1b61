package fidelity

import (
	"fmt"
	"io"
	"strings"

	"github.com/quark-linux/quark/fidelity/monitor"
	"github.com/quark-linux/quark/fidelity/recorder"
)

type others []*other

type other struct {
	*recorder.Recorder
	run     *monitor.Run
	monitor *monitor.Monitor
}

// startMonitors starts the monitors. It returns those that cannot start, with reasons.
func startMonitors(o *Options) (list others, absent []Absence) {
	for _, m := range o.Monitors {
		o.Progress("the start of " + m.Name)
		run, err := m.Start(monitor.Options{Patience: o.MonitorPatience})
		if err != nil {
			absent = append(absent, Absence{m.Name, err.Error()})
			continue
		}
		w := recorder.New(recorder.NewListener(run, 0, false), nil, m.Threads)
		w.Single.Start()
		list = append(list, &other{w, run, m})
	}
	return list, absent
}

// waitDelivered waits until all monitors have delivered their last events. It stops monitors that
// fail to, and returns them with reasons.
func (list *others) waitDelivered(o *Options) (absent []Absence) {
	var left others
	for _, w := range *list {
		o.Progress("the last events of " + w.monitor.Name)
		if err := w.run.WaitDelivered(); err != nil {
			n := w.run.Events()
			reason := strings.Join(append([]string{fmt.Sprintf("after %d events: %v", n, err)}, w.stop()...), "; ")
			absent = append(absent, Absence{w.monitor.Name, reason})
			continue
		}
		left = append(left, w)
	}
	*list = left
	return absent
}

// stop ends all monitors, returns their events, and empties the list.
func (list *others) stop() (all []*recording) {
	for _, w := range *list {
		h := &recording{notes: w.stop()}
		h.Delivered = w.Delivered()
		// Only the capability table excuses missing fields.
		h.Foreign, h.Unread = &w.monitor.Foreign, true
		h.stats, _ = w.run.Stats()
		all = append(all, h)
	}
	*list = nil
	return all
}

// stop ends a monitor and its listener, and returns notes of failures. The listener keeps its
// events.
func (w *other) stop() []string {
	_, notes := w.run.Stop()
	if err := w.Single.Pause(); err != nil {
		notes = append(notes, err.Error())
	}
	return notes
}

// Limits of the defects of a monitor that are printed for each scenario.
const (
	fewScenarios = 5
	fewFindings  = 3
)

// printMonitors prints the defects of the monitors, and notes of failures.
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
			fmt.Fprintf(out, "%s has defects in %d of %d scenarios: %s\n", m.Name, len(imperfect), len(m.Scenarios), strings.Join(imperfect, " "))
		}
	}
}
