package kprobe

import "github.com/quark-linux/quark/internal/proctext"

// namesPerProbe is the number of names of 255 bytes, with their pointers, that fit into a record.
const namesPerProbe = 7

// cwdProbes fetches the working directory.
func (b *builder) cwdProbes() [][]fetch {
	return b.pathProbes(slotCwd, "fs_struct.pwd", "task_struct.fs")
}

// exeProbes fetches the path of the executable.
func (b *builder) exeProbes() [][]fetch {
	return b.pathProbes(slotExe, "file.f_path", "task_struct.mm", "mm_struct.exe_file")
}

// pathProbes returns the fetch arguments of the probes for a path: its dentry and mount, and all
// dentries and mounts above them. path names a struct path, in a struct that members lead to.
func (b *builder) pathProbes(base slot, path string, members ...string) [][]fetch {
	off := func(member string) int {
		n, _ := b.off(member)
		return n
	}
	holder := b.follow(firstArgument, members...)
	inDentry, inMnt := off(path+".dentry"), off(path+".mnt")
	fs := b.follow(firstArgument, "task_struct.fs")
	toMount, mountpoint, up := off("mount.mnt"), off("mount.mnt_mountpoint"), off("mount.mnt_parent")
	mntRoot, parent, name := off("vfsmount.mnt_root"), off("dentry.d_parent"), off("dentry.d_name.name")
	if b.lacks != "" {
		return nil
	}
	var probes [][]fetch
	part := b.part()
	part.addMember(slotRootDentry, typeX64, fs, "fs_struct.root.dentry")
	part.addMember(slotRootMnt, typeX64, fs, "fs_struct.root.mnt")
	dentry, mnt := holder.at(inDentry), holder.at(inMnt)
	// The first mount is identified by the address of its vfsmount, its parents by the address
	// of the struct mount that contains the vfsmount.
	inMount := -toMount
	for m := range pathMounts {
		part.add(pathMntSlot(base, m), typeX64, mnt)
		part.add(pathMntRootSlot(base, m), typeX64, mnt.at(inMount+toMount+mntRoot))
		for level := 0; ; level++ { // from the bottom up
			part.add(pathDentrySlot(base, m, level), typeX64, dentry)
			text := fetch{slot: pathNameSlot(base, m, level), value: dentry.at(name).at(0), typ: typeString}
			if level == pathLevels || !text.fits(b.reads) {
				break
			}
			if countNames(part.args) == namesPerProbe {
				probes, part.args = append(probes, part.args), nil
			}
			part.args = append(part.args, text)
			dentry = dentry.at(parent)
		}
		dentry = mnt.at(inMount + mountpoint)
		mnt = mnt.at(inMount + up)
		inMount = 0
	}
	return append(probes, part.args)
}

func countNames(args []fetch) (n int) {
	for _, a := range args {
		if a.typ == typeString {
			n++
		}
	}
	return n
}

// cgroupVia describes the way to the cgroup in each hierarchy.
var cgroupVia = map[proctext.Hierarchy]string{
	proctext.UnifiedCgroup: "task.cgroups.dfl_cgrp",
	proctext.PIDsCgroup:    "task.cgroups.subsys[pids]",
}

// cgroupNode returns the lowest node of the task's cgroup in the builder's hierarchy.
func (b *builder) cgroupNode() expr {
	set := b.follow(firstArgument, "task_struct.cgroups")
	switch b.cgroups {
	case proctext.UnifiedCgroup:
		return b.follow(set, "css_set.dfl_cgrp", "cgroup.kn")
	case proctext.PIDsCgroup:
		return b.follow(b.element(set, "css_set.subsys", "cgroup_subsys_id.pids_cgrp_id"), "cgroup_subsys_state.cgroup", "cgroup.kn")
	}
	return expr{}
}

// cgroupProbes fetches the path of the cgroup in the builder's hierarchy: the nodes from the bottom
// up, and their names. The topmost node has no parent.
func (b *builder) cgroupProbes() [][]fetch {
	node := b.cgroupNode()
	parent, _ := b.off("kernfs_node.parent")
	name, _ := b.off("kernfs_node.name")
	if node.missing() || b.lacks != "" {
		return nil
	}
	part := b.part()
	for level := range cgroupLevels {
		part.add(slotCgroup+slot(level), typeX64, node)
		text := fetch{slot: slotGroupName + slot(level), value: node.at(name).at(0), typ: typeString}
		if !text.fits(b.reads) {
			return [][]fetch{part.args}
		}
		part.args = append(part.args, text)
		node = node.at(parent)
	}
	part.add(slotCgroup+cgroupLevels, typeX64, node)
	return [][]fetch{part.args}
}

// pathResult is the extent to which a path was assembled.
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

// walk follows a path up to the root of the process, as the kernel's prepend_path does. If walk
// reaches the top of all mounts instead, the process cannot reach the path.
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
			if above == mount { // outside of the root, as on a detached mount
				return pathUnknown
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

// write writes the path into dst, whose length must be that of the path.
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
