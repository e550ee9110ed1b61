// Package bench compares throughput and cost of quark's backends with those of other monitors,
// under the same load and in one run.
package bench

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/fidelity/meter"
	"github.com/quark-linux/quark/fidelity/monitor"
	"github.com/quark-linux/quark/fidelity/scenario"
)

// Result is the measurement of one monitor under one load.
type Result struct {
	Monitor string        `json:"monitor"`
	Mode    scenario.Mode `json:"mode"`
	// Rate is the wanted number of lives per second, 0 for full speed; Offered is the
	// number that ran.
	Rate    int           `json:"rate"`
	Offered float64       `json:"offered"`
	CPU     time.Duration `json:"cpu_ns"`   // the monitor's CPU time per life
	Slow    float64       `json:"slowdown"` // duration with the monitor / duration without
	Lost    uint64        `json:"lost"`     // reported as lost; 0 if Silent
	Silent  bool          `json:"silent"`   // the monitor does not count what it loses
	RSS     int64         `json:"peak_rss_kib"`
}

// Options say what is measured.
type Options struct {
	Monitors []string // see Monitors
	Modes    []scenario.Mode
	Rates    []int         // lives per second; rates beyond the machine's capacity are left out
	Length   time.Duration // approximate duration of each load
	Patience time.Duration
	Progress func(string)
}

// foreign are the monitors of other projects.
var foreign = []string{"forkstat", "execsnoop", "bpftrace"}

// Monitors returns the monitors that run on this machine, and for each other one the reason. own
// are the backends of quark that are measured; 0 is backends.All.
func Monitors(own backends.Set) (list []string, absent []error) {
	own = cmp.Or(own, backends.All)
	names := own.Names()
	if own&backends.CNProc != 0 {
		names = append(names, "cnproc+count")
	}
	for _, name := range append(names, foreign...) {
		stop, err := start(name)
		if err == nil {
			_, err = stop()
		}
		if err != nil {
			absent = append(absent, fmt.Errorf("%s: %w", name, err))
			continue
		}
		list = append(list, name)
	}
	return list, absent
}

// Run measures every monitor under every load, at each rate and at full speed.
func Run(o Options) (list []Result, err error) {
	for _, mode := range o.Modes {
		top, err := Top(mode, o.Patience)
		if err != nil {
			return list, err
		}
		for _, rate := range append(slices.Clone(o.Rates), 0) {
			if float64(rate) > 0.9*top {
				continue
			}
			n := int(o.Length.Seconds() * cmp.Or(float64(rate), top))
			if mode == scenario.Exits {
				n = min(n, maxWaiting)
			}
			row, err := o.row(scenario.Storm{Processes: max(n, 50), Workers: workers, Rate: rate, Mode: mode, Bare: true})
			list = append(list, row...)
			if err != nil {
				return list, err
			}
		}
	}
	return list, nil
}

const (
	workers = 2
	// maxWaiting limits the processes of a load of exits, which all exist at its start.
	maxWaiting = 4000
	// trial is the number of lives with which Top measures.
	trial = 300
)

// Top measures about how many lives per second the machine can run without a monitor.
func Top(mode scenario.Mode, patience time.Duration) (float64, error) {
	return scenario.Storm{Processes: trial, Workers: workers, Mode: mode, Bare: true}.Speed(patience)
}

// row measures every monitor under one load. The load also runs without a monitor before and
// after each. The faster of these two runs is compared, because other work of the machine only
// makes runs slower.
func (o *Options) row(load scenario.Storm) (list []Result, err error) {
	alone := make([]time.Duration, len(o.Monitors)+1)
	took := make([]time.Duration, len(o.Monitors))
	for i, name := range o.Monitors {
		o.Progress(fmt.Sprintf("%s, %s at %d/s", name, load.Mode, load.Rate))
		if alone[i], err = load.Time(o.Patience, nil); err != nil {
			return list, err
		}
		var u meter.Usage
		took[i], u, err = meter.Under(load, o.Patience, func() (func() (meter.Usage, error), error) { return start(name) })
		if err != nil {
			return list, fmt.Errorf("%s: %w", name, err)
		}
		list = append(list, Result{
			Monitor: name, Mode: load.Mode, Rate: load.Rate, Offered: float64(load.Processes) / took[i].Seconds(),
			CPU: u.CPU / time.Duration(load.Processes), Lost: u.Lost, Silent: u.Silent, RSS: u.RSS,
		})
	}
	if alone[len(o.Monitors)], err = load.Time(o.Patience, nil); err != nil {
		return list, err
	}
	for i := range list {
		list[i].Slow = took[i].Seconds() / min(alone[i], alone[i+1]).Seconds()
	}
	return list, nil
}

// start starts a monitor, quark's or another project's, and returns what ends it.
func start(name string) (stop func() (meter.Usage, error), err error) {
	if !slices.Contains(foreign, name) {
		return meter.Start(name)
	}
	m, err := monitor.Find(name)
	if err != nil {
		return nil, err
	}
	stop, _, err = m.Measure()
	return stop, err
}
