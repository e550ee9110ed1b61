package fidelity

import (
	"fmt"
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
