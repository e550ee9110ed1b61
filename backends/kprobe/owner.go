package kprobe

import (
	"errors"
	"fmt"
	"strings"

	"github.com/quark-linux/quark/backends/internal/owner"
	"github.com/quark-linux/quark/internal/tracefs"
)

// sweep removes the probes of processes that have ended without removing them.
func sweep(probes *tracefs.Probes) error {
	names, err := probes.List()
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		group, _, _ := strings.Cut(name, "/")
		o, _, ok := owner.Parse(group)
		if !ok || !o.Gone() {
			continue
		}
		if err := probes.Write("-:" + name); err != nil {
			errs = append(errs, fmt.Errorf("remove probe %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}
