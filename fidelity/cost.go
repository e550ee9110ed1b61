package fidelity

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/quark-linux/quark/fidelity/meter"
	"github.com/quark-linux/quark/fidelity/scenario"
)

// Cost is what a monitor costs that only counts, while processes fork, exec and
// exit one after the other.
type Cost struct {
	Backend   string `json:"backend"`
	Processes int    `json:"processes"`
	// CPU is the monitor's CPU time for 1,000 processes.
	CPU time.Duration `json:"cpu_ns_per_1000"`
	// Slowdown is the time that the processes take, by what they take unobserved.
	Slowdown float64 `json:"slowdown"`
	// Programs is the time in eBPF programs for each process, 0 if there are none.
	Programs time.Duration `json:"programs_ns"`
	RSS      int64         `json:"peak_rss_kib"`
	Lost     uint64        `json:"lost"`
}

// CPUText is CPU without the digits that say nothing.
func (c *Cost) CPUText() string { return c.CPU.Round(100 * time.Microsecond).String() }

// ProgramsText is Programs in microseconds.
func (c *Cost) ProgramsText() string {
	if c.Programs == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f us", float64(c.Programs)/1e3)
}

const costRuns = 3

// Costs measures each backend alone, with n processes. On a busy machine the
// slowdown says little.
func Costs(o Options, names []string, n int) (list []Cost, err error) {
	o.setDefaults()
	load := scenario.Storm{Processes: n, Workers: 1, Mode: scenario.ForkExecExit, Bare: true}
	for _, name := range names {
		o.Progress("cost of " + name)
		c := Cost{Backend: name, Processes: n}
		// What else the machine does only makes things slower: the quickest of some
		// runs, with and without a monitor in turn, is what there is to compare.
		alone, watched := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
		for range costRuns {
			took, err := load.Time(o.Patience, nil)
			if err != nil {
				return nil, err
			}
			alone = min(alone, took)
			took, u, err := observed(load, name, o.Patience)
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
			// The measuring itself costs time, so it has a run of its own.
			_, u, err := observed(load, name+"+stats", o.Patience)
			if err != nil {
				return nil, err
			}
			c.Programs = u.Programs / time.Duration(n)
		}
		list = append(list, c)
	}
	return list, nil
}

func observed(s scenario.Storm, what string, patience time.Duration) (took time.Duration, u meter.Usage, err error) {
	var m *meter.Metered
	took, err = s.Time(patience, func() (err error) {
		m, err = meter.Start(what)
		return err
	})
	if m != nil {
		var stopErr error
		u, stopErr = m.Stop()
		err = errors.Join(err, stopErr)
	}
	return took, u, err
}
