package proctext

import (
	"bytes"
	"os"
)

// Hierarchy is a cgroup hierarchy that a process's path is taken from.
type Hierarchy uint8

const (
	NoHierarchy   Hierarchy = iota
	UnifiedCgroup           // cgroup v2
	PIDsCgroup              // that of the pids controller in cgroup v1
)

// ParseCgroup returns a process's path from /proc/PID/cgroup, lines of
// "hierarchy-id:controllers:path": the one in cgroup v2 ("0::"), and where cgroup v2 is not in use
// the one in the hierarchy of the pids controller.
func ParseCgroup(b []byte) (path []byte, h Hierarchy) {
	for line := range bytes.SplitSeq(b, []byte{'\n'}) {
		id, rest, _ := Cut(line, ':')
		controllers, p, found := Cut(rest, ':')
		if !found || len(p) == 0 || p[0] != '/' {
			continue
		}
		if string(id) == "0" && len(controllers) == 0 {
			return p, UnifiedCgroup
		}
		for c := range bytes.SplitSeq(controllers, []byte{','}) {
			if string(c) == "pids" {
				path, h = p, PIDsCgroup
			}
		}
	}
	return path, h
}

// OwnHierarchy returns the hierarchy that ParseCgroup takes the paths of this machine's processes
// from: NoHierarchy without cgroup v2 and without the pids controller, or without /proc.
func OwnHierarchy() Hierarchy {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return NoHierarchy
	}
	_, h := ParseCgroup(b)
	return h
}
