package procfs

import "bytes"

// parseCgroup takes a process's path from the text of /proc/PID/cgroup, lines of
// "hierarchy-id:controllers:path": the one of cgroup v2 ("0::"), and where that
// is not in use the one of the pids controller, which is what the eBPF backend
// follows too.
func parseCgroup(b []byte) (path []byte, ok bool) {
	for len(b) > 0 {
		var line []byte
		line, b, _ = cut(b, '\n')
		id, rest, _ := cut(line, ':')
		controllers, p, found := cut(rest, ':')
		if !found || len(p) == 0 || p[0] != '/' {
			continue
		}
		if string(id) == "0" && len(controllers) == 0 {
			return p, true
		}
		if hasController(controllers, "pids") {
			path, ok = p, true
		}
	}
	return path, ok
}

func hasController(list []byte, name string) bool {
	for len(list) > 0 {
		var c []byte
		if c, list, _ = cut(list, ','); string(c) == name {
			return true
		}
	}
	return false
}

// parseNS takes the inode number out of a link such as "mnt:[4026531841]".
func parseNS(b []byte) (uint32, bool) {
	open := bytes.IndexByte(b, '[')
	if open < 0 || b[len(b)-1] != ']' {
		return 0, false
	}
	return parseU32(b[open+1 : len(b)-1])
}
