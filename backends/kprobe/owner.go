package kprobe

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/quark-linux/quark/internal/proctext"
	"github.com/quark-linux/quark/internal/tracefs"
)

// owner is the process that installed probes. The start time distinguishes it from a later process
// with the same pid.
type owner struct {
	pid   int
	start uint64 // clock ticks since boot
}

const groupPrefix = "quark"

// group returns the name of a source's group of probes.
func (o owner) group(queue uint32) string {
	return fmt.Sprintf("%s_%d_%d_%d", groupPrefix, o.pid, o.start, queue)
}

// parseGroup is the inverse of group.
func parseGroup(name string) (o owner, ok bool) {
	var queue uint32
	_, err := fmt.Sscanf(name, groupPrefix+"_%d_%d_%d", &o.pid, &o.start, &queue)
	return o, err == nil && o.pid > 0 && o.group(queue) == name
}

func self() (owner, error) {
	pid := os.Getpid()
	st, err := proctext.ReadStat(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return owner{}, fmt.Errorf("find own start time: %w: mount proc on /proc", err)
	}
	return owner{pid, st.Start / proctext.Tick}, nil
}

// sweep removes the probes of processes that have ended without removing them.
func sweep(probes *tracefs.Probes) error {
	names, err := probes.List()
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		group, _, _ := strings.Cut(name, "/")
		o, ok := parseGroup(group)
		if !ok || !o.gone() {
			continue
		}
		if err := probes.Write("-:" + name); err != nil {
			errs = append(errs, fmt.Errorf("remove probe %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// gone reports whether the process has certainly ended.
func (o owner) gone() bool {
	st, err := proctext.ReadStat(fmt.Sprintf("/proc/%d/stat", o.pid))
	if err != nil {
		return errors.Is(err, os.ErrNotExist)
	}
	return st.Start/proctext.Tick != o.start
}
