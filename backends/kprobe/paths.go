package kprobe

// namesPerProbe is how many names of 255 bytes fit into a record together with their pointers.
const namesPerProbe = 7

// pathProbes returns the fetch arguments of the probes for a path: the dentry and the mount of a
// struct path, and all dentries and mounts above them.
func (b *builder) pathProbes(base slot, task, dentry, mnt expr) [][]fetch {
	var probes [][]fetch
	part := builder{offsets: b.offsets, reads: b.reads}
	fs, ok := b.follow(task, "task_struct.fs")
	if !ok {
		return nil
	}
	part.addMember(slotRootDentry, typeX64, fs, "fs_struct.root.dentry")
	part.addMember(slotRootMnt, typeX64, fs, "fs_struct.root.mnt")

	toMount, ok1 := b.off("mount.mnt")
	mountpoint, ok2 := b.off("mount.mnt_mountpoint")
	up, ok3 := b.off("mount.mnt_parent")
	mntRoot, ok4 := b.off("vfsmount.mnt_root")
	parent, ok5 := b.off("dentry.d_parent")
	name, ok6 := b.off("dentry.d_name.name")
	if !(ok1 && ok2 && ok3 && ok4 && ok5 && ok6) {
		return nil
	}
	// The first mount is known by the address of its vfsmount, those above by the address of
	// the struct mount around it.
	inMount := -toMount
	for m := range pathMounts {
		part.add(pathMntSlot(base, m), typeX64, mnt, true)
		part.add(pathMntRootSlot(base, m), typeX64, mnt.at(inMount+toMount+mntRoot), true)
		part, probes = b.addLevels(part, probes, base, m, dentry, parent, name)
		dentry = mnt.at(inMount + mountpoint)
		mnt = mnt.at(inMount + up)
		inMount = 0
	}
	return append(probes, part.args)
}

// addLevels fetches dentries and their names from the bottom up.
func (b *builder) addLevels(part builder, probes [][]fetch, base slot, mount int, dentry expr, parent, name int) (builder, [][]fetch) {
	for level := 0; ; level++ {
		part.add(pathDentrySlot(base, mount, level), typeX64, dentry, true)
		text := fetch{slot: pathNameSlot(base, mount, level), value: dentry.at(name).at(0), typ: typeString}
		if level == pathLevels || !text.fits(b.reads) {
			return part, probes
		}
		if names(part.args) == namesPerProbe {
			probes = append(probes, part.args)
			part = builder{offsets: b.offsets, reads: b.reads}
		}
		part.args = append(part.args, text)
		dentry = dentry.at(parent)
	}
}

func names(args []fetch) (n int) {
	for _, a := range args {
		if a.typ == typeString {
			n++
		}
	}
	return n
}

// cwdProbes fetches the working directory.
func (b *builder) cwdProbes(task expr) [][]fetch {
	dentry, ok := b.follow(task, "task_struct.fs", "fs_struct.pwd.dentry")
	mnt, ok2 := b.follow(task, "task_struct.fs", "fs_struct.pwd.mnt")
	if !ok || !ok2 {
		return nil
	}
	return b.pathProbes(slotCwd, task, dentry, mnt)
}

// exeProbes fetches the path of the executable.
func (b *builder) exeProbes(task expr) [][]fetch {
	file, ok := b.follow(task, "task_struct.mm", "mm_struct.exe_file")
	dentry, ok2 := b.follow(file, "file.f_path.dentry")
	mnt, ok3 := b.follow(file, "file.f_path.mnt")
	if !ok || !ok2 || !ok3 {
		return nil
	}
	return b.pathProbes(slotExe, task, dentry, mnt)
}
