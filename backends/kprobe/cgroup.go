package kprobe

import "github.com/quark-linux/quark/internal/proctext"

// cgroupVia describes how the cgroup in a hierarchy is reached.
var cgroupVia = map[proctext.Hierarchy]string{
	proctext.UnifiedCgroup: "task.cgroups.dfl_cgrp",
	proctext.PIDsCgroup:    "task.cgroups.subsys[pids]",
}

// cgroupNode returns the lowest node of a task's cgroup in the builder's hierarchy.
func (b *builder) cgroupNode(task expr) (expr, bool) {
	switch b.cgroups {
	case proctext.UnifiedCgroup:
		return b.follow(task, "task_struct.cgroups", "css_set.dfl_cgrp", "cgroup.kn")
	case proctext.PIDsCgroup:
		set, ok := b.follow(task, "task_struct.cgroups")
		subsystems, ok2 := b.off("css_set.subsys")
		pids, ok3 := b.offsets.Value("cgroup_subsys_id.pids_cgrp_id")
		if !ok3 || pids < 0 || pids > 64 {
			b.lacks = "cgroup_subsys_id.pids_cgrp_id"
			return expr{}, false
		}
		node, ok4 := b.follow(set.at(subsystems+int(pids)*8), "cgroup_subsys_state.cgroup", "cgroup.kn")
		return node, ok && ok2 && ok4
	}
	return expr{}, false
}

// cgroupOfProbed fetches the path of the cgroup in the builder's hierarchy: the nodes from the
// bottom up and their names. The topmost node has no parent.
func cgroupOfProbed(b *builder) [][]fetch {
	node, ok := b.cgroupNode(firstArgument)
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
