package kprobe

// pathResult says how much of a path was assembled.
type pathResult uint8

const (
	pathUnknown pathResult = iota
	pathWhole
	pathCut  // the front is missing
	pathName // a file without a directory, such as a memfd
)

// walker assembles paths.
type walker struct {
	toMount uint64 // offset of the vfsmount in struct mount
	parts   [pathMounts * pathLevels][]byte
	n       int
	len     int
}

func (w *walker) push(name []byte) {
	w.parts[w.n] = name
	w.n++
	w.len += 1 + len(name)
}

// walk follows a path up as the kernel's prepend_path does: to the root of the process, or to the
// top of all mounts.
func (w *walker) walk(v *values, base slot) pathResult {
	w.n, w.len = 0, 0
	rootDentry, rootMnt := v.number(slotRootDentry), v.number(slotRootMnt)
	first := pathDentrySlot(base, 0, 0)
	if !v.slots.has(slotRootMnt) || !v.slots.has(first) || v.number(first) == 0 || rootDentry == 0 {
		return pathUnknown
	}
	mount := v.number(pathMntSlot(base, 0)) - w.toMount // struct mount
	for m := range pathMounts {
		if m > 0 {
			above := v.number(pathMntSlot(base, m))
			if above == mount { // not below the root, or on a detached mount
				return pathWhole
			}
			mount = above
		}
		if !v.slots.has(pathMntRootSlot(base, m)) {
			return pathCut
		}
		mntRoot := v.number(pathMntRootSlot(base, m))
		for level := 0; ; level++ {
			if level > pathLevels || !v.slots.has(pathDentrySlot(base, m, level)) {
				return pathCut
			}
			dentry := v.number(pathDentrySlot(base, m, level))
			if dentry == rootDentry && mount+w.toMount == rootMnt {
				return pathWhole
			}
			if dentry == mntRoot {
				break
			}
			if level == pathLevels || !v.slots.has(pathDentrySlot(base, m, level+1)) || !v.slots.has(pathNameSlot(base, m, level)) {
				return pathCut
			}
			name := v.name(pathNameSlot(base, m, level))
			if len(name) == 0 {
				return pathCut
			}
			w.push(name)
			if v.number(pathDentrySlot(base, m, level+1)) == dentry {
				if m == 0 && level == 0 {
					return pathName
				}
				w.n--
				w.len -= 1 + len(name)
				return pathCut // disconnected from the mount's root
			}
		}
	}
	return pathCut
}

// length returns the length of the path that write writes.
func (w *walker) length(r pathResult) int {
	switch {
	case r == pathWhole && w.n == 0:
		return 1 // the root
	case r == pathWhole:
		return w.len
	}
	return max(w.len-1, 0) // without a leading slash
}

// write writes the path into dst, which has its length.
func (w *walker) write(dst []byte) {
	if w.n == 0 && len(dst) == 1 {
		dst[0] = '/'
		return
	}
	at := len(dst)
	for _, name := range w.parts[:w.n] {
		at -= len(name)
		copy(dst[at:], name)
		if at > 0 {
			at--
			dst[at] = '/'
		}
	}
}
