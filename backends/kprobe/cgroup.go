package kprobe

import "github.com/quark-linux/quark/internal/proctext"

// cgroupVia describes how the cgroup in a hierarchy is reached.
var cgroupVia = map[proctext.Hierarchy]string{
	proctext.UnifiedCgroup: "task.cgroups.dfl_cgrp",
	proctext.PIDsCgroup:    "task.cgroups.subsys[pids]",
}

// cgroupNode returns the lowest node of the task's cgroup in the builder's hierarchy.
func (b *builder) cgroupNode() (expr, bool) {
	switch b.cgroups {
	case proctext.UnifiedCgroup:
		return b.follow(firstArgument, "task_struct.cgroups", "css_set.dfl_cgrp", "cgroup.kn")
	case proctext.PIDsCgroup:
		set, ok := b.follow(firstArgument, "task_struct.cgroups")
		if subsystem, found := b.element("css_set.subsys", "cgroup_subsys_id.pids_cgrp_id"); ok && found {
			return b.follow(set.at(subsystem), "cgroup_subsys_state.cgroup", "cgroup.kn")
		}
	}
	return expr{}, false
}

// cgroupProbes fetches the path of the cgroup in the builder's hierarchy: the nodes from the
// bottom up and their names. The topmost node has no parent.
func (b *builder) cgroupProbes() [][]fetch {
	node, ok := b.cgroupNode()
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
