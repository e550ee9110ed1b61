package fidelity

import (
	"fmt"
)

const (
	costProcesses = 2000
	leastCost     = 100
)

// Load adds to a report what loss, storms and cost are of its backends.
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
	o.Progress("how many processes a second this machine gives")
	most, err := capacity(o)
	if err != nil {
		return fmt.Errorf("processes that nobody watches: %w", err)
	}
	if r.Storms, err = Storms(o, most); err != nil {
		return fmt.Errorf("storms: %w", err)
	}
	// An emulated machine would take minutes for what takes others half a second.
	if r.Costs, err = Costs(o, names, min(costProcesses, max(leastCost, most/2))); err != nil {
		return fmt.Errorf("cost: %w", err)
	}
	return nil
}
