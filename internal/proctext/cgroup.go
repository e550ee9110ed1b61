package proctext

import (
	"bytes"
	"os"
)

// Hierarchy is the cgroup hierarchy of a process's path.
type Hierarchy uint8

const (
	NoHierarchy   Hierarchy = iota
	UnifiedCgroup           // cgroup v2
	PIDsCgroup              // of the pids controller in cgroup v1
)

// ParseCgroup returns a process's path from /proc/PID/cgroup: in cgroup v2 or, if that is not in
// use, in the hierarchy of the pids controller.
func ParseCgroup(b []byte) (path []byte, h Hierarchy) {
	for len(b) > 0 {
		var controllers, p []byte
		controllers, p, b = cutCgroup(b)
		if p != nil && len(controllers) == 0 {
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

// cutCgroup splits the first line, "hierarchy-id:controllers:path", from the lines after it. cgroup
// v2 has the id 0 and no controllers. For an invalid line both are nil.
func cutCgroup(b []byte) (controllers, path, rest []byte) {
	line, rest, _ := Cut(b, '\n')
	id, line, _ := Cut(line, ':')
	controllers, path, _ = Cut(line, ':')
	if len(path) == 0 || path[0] != '/' || len(controllers) == 0 && string(id) != "0" {
		return nil, nil, rest
	}
	return controllers, path, rest
}

// OwnHierarchy returns the hierarchy of ParseCgroup on this machine: NoHierarchy without cgroup v2
// and without the pids controller, or without /proc.
func OwnHierarchy() Hierarchy {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return NoHierarchy
	}
	_, h := ParseCgroup(b)
	return h
}
