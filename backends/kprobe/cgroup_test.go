package kprobe

import (
	"testing"

	"github.com/quark-linux/quark/internal/proctext"
)

// The cgroup comes from the same hierarchy as in /proc/PID/cgroup. If only cgroup v1 is used, the
// other hierarchy has all processes in its root.
func TestCgroupHierarchy(t *testing.T) {
	reg := registers["amd64"][0]
	defer func(old expr) { firstArgument = old }(firstArgument)
	firstArgument = expr{register: reg}
	for _, c := range []struct {
		hierarchy proctext.Hierarchy
		node      string // offset of members 8, enumerator 1
	}{
		{proctext.NoHierarchy, ""},
		{proctext.UnifiedCgroup, "+8(+8(+8(%di)))"},
		{proctext.PIDsCgroup, "+8(+8(+16(+8(%di))))"},
	} {
		b := builder{kernel: kernel{offsets: &recorder{asked: map[string]bool{}}, reads: 10, cgroups: c.hierarchy}}
		probes, got := b.cgroupProbes(), ""
		if len(probes) > 0 {
			got = probes[0][0].value.String()
		}
		if got != c.node {
			t.Errorf("hierarchy %d: got lowest node %q, want %q", c.hierarchy, got, c.node)
		}
	}
}
