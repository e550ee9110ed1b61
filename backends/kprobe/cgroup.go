package kprobe

// cgroupOfProbed fetches the path of the cgroup in the unified hierarchy: the nodes from the bottom
// up and their names. The topmost node has no parent.
func cgroupOfProbed(b *builder) [][]fetch {
	node, ok := b.follow(firstArgument, "task_struct.cgroups", "css_set.dfl_cgrp", "cgroup.kn")
	parent, ok2 := b.off("kernfs_node.parent")
	name, ok3 := b.off("kernfs_node.name")
	if !ok || !ok2 || !ok3 {
		return nil
	}
	part := builder{offsets: b.offsets, reads: b.reads}
	for level := range cgroupLevels {
		part.add(slotCgroup+slot(level), typeX64, node, true)
		text := fetch{slot: slotGroupName + slot(level), value: node.at(name).at(0), typ: typeString}
		if !text.fits(b.reads) {
			return [][]fetch{part.args}
		}
		part.args = append(part.args, text)
		node = node.at(parent)
	}
	part.add(slotCgroup+cgroupLevels, typeX64, node, true)
	return [][]fetch{part.args}
}
