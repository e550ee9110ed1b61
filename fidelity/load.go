package fidelity

import (
	"fmt"
	"time"
)

// rates are offered to all backends at once; 0 is as many as the machine gives.
var rates = []int{500, 1000, 2000, 4000, 0}

const (
	stormLength   = 500 * time.Millisecond
	costProcesses = 2000
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
	var err error
	if r.Storms, err = Storms(o, rates, stormLength); err != nil {
		return fmt.Errorf("storms: %w", err)
	}
	if r.Costs, err = Costs(o, names, costProcesses); err != nil {
		return fmt.Errorf("cost: %w", err)
	}
	return nil
}
