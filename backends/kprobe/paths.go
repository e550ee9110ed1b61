package kprobe

// namesPerProbe is how many names of 255 bytes fit into a record together with their pointers.
const namesPerProbe = 7

// cwdProbes fetches the working directory.
func (b *builder) cwdProbes() [][]fetch {
	return b.pathProbes(slotCwd, "fs_struct.pwd", "task_struct.fs")
}

// exeProbes fetches the path of the executable.
func (b *builder) exeProbes() [][]fetch {
	return b.pathProbes(slotExe, "file.f_path", "task_struct.mm", "mm_struct.exe_file")
}

// pathProbes returns the fetch arguments of the probes for a path: its dentry and its mount, and
// all dentries and mounts above them. path is a struct path, in a struct that members lead to.
func (b *builder) pathProbes(base slot, path string, members ...string) [][]fetch {
	holder, ok1 := b.follow(firstArgument, members...)
	inDentry, ok2 := b.off(path + ".dentry")
	inMnt, ok3 := b.off(path + ".mnt")
	fs, ok4 := b.follow(firstArgument, "task_struct.fs")
	toMount, ok5 := b.off("mount.mnt")
	mountpoint, ok6 := b.off("mount.mnt_mountpoint")
	up, ok7 := b.off("mount.mnt_parent")
	mntRoot, ok8 := b.off("vfsmount.mnt_root")
	parent, ok9 := b.off("dentry.d_parent")
	name, ok10 := b.off("dentry.d_name.name")
	if !(ok1 && ok2 && ok3 && ok4 && ok5 && ok6 && ok7 && ok8 && ok9 && ok10) {
		return nil
	}
	var probes [][]fetch
	part := builder{offsets: b.offsets}
	part.addMember(slotRootDentry, typeX64, fs, "fs_struct.root.dentry")
	part.addMember(slotRootMnt, typeX64, fs, "fs_struct.root.mnt")
	dentry, mnt := holder.at(inDentry), holder.at(inMnt)
	// The first mount is known by the address of its vfsmount, those above by the address of
	// the struct mount around it.
	inMount := -toMount
	for m := range pathMounts {
		part.add(pathMntSlot(base, m), typeX64, mnt, true)
		part.add(pathMntRootSlot(base, m), typeX64, mnt.at(inMount+toMount+mntRoot), true)
		for level := 0; ; level++ { // from the bottom up
			part.add(pathDentrySlot(base, m, level), typeX64, dentry, true)
			text := fetch{slot: pathNameSlot(base, m, level), value: dentry.at(name).at(0), typ: typeString}
			if level == pathLevels || !text.fits(b.reads) {
				break
			}
			if names(part.args) == namesPerProbe {
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

func names(args []fetch) (n int) {
	for _, a := range args {
		if a.typ == typeString {
			n++
		}
	}
	return n
}
