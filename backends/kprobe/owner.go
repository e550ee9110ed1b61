package kprobe

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/quark-linux/quark/backends/internal/tracefs"
)

// owner is the process that installs probes. The start time tells it from
// another that gets the same pid later, and the namespace from one of the same
// pid elsewhere.
type owner struct {
	pid       int
	start     uint64 // clock ticks since boot
	namespace uint64 // inode number
}

const groupPrefix = "quark"

// group is the name of a source's group of probes.
func (o owner) group(queue uint32) string {
	return fmt.Sprintf("%s_%d_%d_%d_%d", groupPrefix, o.pid, o.start, o.namespace, queue)
}

// parseGroup is the opposite of group.
func parseGroup(name string) (o owner, ok bool) {
	parts := strings.Split(name, "_")
	if len(parts) != 5 || parts[0] != groupPrefix {
		return o, false
	}
	var n [4]uint64
	for i, p := range parts[1:] {
		v, err := strconv.ParseUint(p, 10, 64)
		if err != nil {
			return o, false
		}
		n[i] = v
	}
	if n[0] == 0 || n[0] > 1<<30 || n[3] > 1<<32-1 {
		return o, false
	}
	return owner{int(n[0]), n[1], n[2]}, true
}

func self() (owner, error) {
	pid := os.Getpid()
	start, err := startTicks(pid)
	if err != nil {
		return owner{}, fmt.Errorf("find own start time: %w: mount proc on /proc", err)
	}
	o := owner{pid: pid, start: start}
	if ns, err := os.Readlink("/proc/self/ns/pid"); err == nil {
		o.namespace, _ = strconv.ParseUint(strings.Trim(strings.TrimPrefix(ns, "pid:"), "[]"), 10, 64)
	}
	return o, nil
}

// startTicks returns when a process started.
func startTicks(pid int) (uint64, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, err
	}
	return parseStartTicks(b)
}

// parseStartTicks takes field 22 of /proc/PID/stat; the second may hold anything.
func parseStartTicks(stat []byte) (uint64, error) {
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(f) < 20 {
		return 0, errors.New("stat is too short")
	}
	return strconv.ParseUint(string(f[19]), 10, 64)
}

// sweep removes the probes of processes that have ended without doing so. Only
// those of the own pid namespace can be told.
func sweep(probes *tracefs.Probes, me owner) error {
	names, err := probes.List()
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range names {
		group, _, _ := strings.Cut(name, "/")
		o, ok := parseGroup(group)
		if !ok || o.namespace != me.namespace || !o.gone() {
			continue
		}
		if err := probes.Write("-:" + name); err != nil {
			errs = append(errs, fmt.Errorf("remove probe %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// gone tells for certain that the process has ended.
func (o owner) gone() bool {
	start, err := startTicks(o.pid)
	if err != nil {
		return errors.Is(err, os.ErrNotExist)
	}
	return start != o.start
}
