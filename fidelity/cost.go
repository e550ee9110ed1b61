package fidelity

import (
	"fmt"
	"math"
	"time"

	"github.com/quark-linux/quark/fidelity/meter"
	"github.com/quark-linux/quark/fidelity/scenario"
)

const (
	costProcesses = 2000
	minCost       = 100
)

// Load measures forced loss, storms and cost of the report's backends and adds them to it.
func (r *Report) Load(o Options) error {
	o.setDefaults()
	var names []string
	for _, b := range r.Backends {
		names = append(names, b.Name)
	}
	for _, name := range names {
		o.Progress("forced loss of " + name)
		h, err := Honest(name, o.Patience)
		if err != nil {
			return fmt.Errorf("forced loss of %s: %w", name, err)
		}
		r.Honesty = append(r.Honesty, h)
	}
	o.Progress("how many processes per second this machine can run")
	most, err := capacity(o)
	if err != nil {
		return fmt.Errorf("processes without a monitor: %w", err)
	}
	if r.Storms, err = Storms(o, most); err != nil {
		return fmt.Errorf("storms: %w", err)
	}
	// Half a second's worth of processes: an emulated machine would need minutes for all.
	if r.Costs, err = Costs(o, names, min(costProcesses, max(minCost, most/2))); err != nil {
		return fmt.Errorf("cost: %w", err)
	}
	return nil
}

// Cost is the cost of a monitor that only counts events while processes fork, exec and exit one
// after the other.
type Cost struct {
	Backend   string `json:"backend"`
	Processes int    `json:"processes"`
	// CPU is the monitor's CPU time per 1,000 processes.
	CPU time.Duration `json:"cpu_ns_per_1000"`
	// Slowdown is the load's duration with the monitor divided by its duration without.
	Slowdown float64 `json:"slowdown"`
	// Programs is the run time of eBPF programs per process, 0 for backends without any.
	Programs time.Duration `json:"programs_ns"`
	RSS      int64         `json:"peak_rss_kib"`
	Lost     uint64        `json:"lost"`
}

// CPUText formats CPU, rounded to 0.1 ms: more digits would be noise.
func (c *Cost) CPUText() string { return c.CPU.Round(100 * time.Microsecond).String() }

// ProgramsText formats Programs in microseconds.
func (c *Cost) ProgramsText() string {
	if c.Programs == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f us", float64(c.Programs)/1e3)
}

const costRuns = 3

// Costs measures each backend alone, under a load of n processes. On a busy machine the slowdown
// means little.
func Costs(o Options, names []string, n int) (list []Cost, err error) {
	o.setDefaults()
	load := scenario.Storm{Processes: n, Workers: 1, Mode: scenario.ForkExecExit, Bare: true}
	observed := func(what string) (time.Duration, meter.Usage, error) {
		return meter.Under(load, o.Patience, func() (func() (meter.Usage, error), error) { return meter.Start(what) })
	}
	for _, name := range names {
		o.Progress("cost of " + name)
		c := Cost{Backend: name, Processes: n}
		// Other work of the machine only makes runs slower, so the fastest runs are
		// compared. Runs with and without the monitor alternate.
		alone, watched := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
		for range costRuns {
			took, err := load.Time(o.Patience, nil)
			if err != nil {
				return nil, err
			}
			alone = min(alone, took)
			took, u, err := observed(name)
			if err != nil {
				return nil, err
			}
			if cpu := u.CPU * 1000 / time.Duration(n); c.CPU == 0 || cpu < c.CPU {
				c.CPU = cpu
			}
			watched = min(watched, took)
			c.RSS, c.Lost = max(c.RSS, u.RSS), c.Lost+u.Lost
		}
		c.Slowdown = watched.Seconds() / alone.Seconds()
		if name == "ebpf" {
			// Measuring the programs costs time itself, so it has a separate run.
			_, u, err := observed(name + "+stats")
			if err != nil {
				return nil, err
			}
			c.Programs = u.Programs / time.Duration(n)
		}
		list = append(list, c)
	}
	return list, nil
}
