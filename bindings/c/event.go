//go:build cgo

package main

/*
#include "go.h"
*/
import "C"

import (
	"unsafe"

	"github.com/quark-linux/quark"
)

// writeEvent writes ev with its process and parts, and then their strings.
func (q *queue) writeEvent(r *arena, ev *quark.Event) {
	var measured C.struct_quark_event
	c := (*C.struct_quark_event)(r.alloc(C.sizeof_struct_quark_event))
	if c == nil {
		c = &measured
	}
	*c = C.struct_quark_event{} // clear c first: Go would build and copy a full literal
	c.events, c.id_change = C.uint64_t(ev.Events), C.uint32_t(ev.IDChange)
	c.time, c.time_monotonic = C.uint64_t(ev.Wall.UnixNano()), C.uint64_t(ev.Time)
	c.cpu, c.tid, c.thread = C.uint32_t(ev.CPU), C.uint32_t(ev.TID), C.uint32_t(flag(ev.Thread))
	c.tracer_pid, c.tracer_tid = C.uint32_t(ev.Tracer.PID), C.uint32_t(ev.Tracer.TID)
	c.old_ppid = C.uint32_t(ev.OldPPID)
	c.cgroup_change_by_pid, c.cgroup_change_by_start = C.uint32_t(ev.CgroupChangeBy.PID), C.uint64_t(ev.CgroupChangeBy.Start)
	n := &ev.NSChange
	c.ns_change, c.ns_change_new_pid = C.uint32_t(n.Changed), C.uint32_t(n.NewPID)
	c.ns_change_old_uts, c.ns_change_old_ipc = C.uint32_t(n.Old.UTS), C.uint32_t(n.Old.IPC)
	c.ns_change_old_mnt, c.ns_change_old_net = C.uint32_t(n.Old.Mnt), C.uint32_t(n.Old.Net)
	c.ns_change_old_pid, c.ns_change_old_user = C.uint32_t(n.Old.PID), C.uint32_t(n.Old.User)
	c.ns_change_old_cgroup, c.ns_change_old_time = C.uint32_t(n.Old.Cgroup), C.uint32_t(n.Old.Time)
	ofProcess := !ev.Events.Has(quark.EventGap)
	if ofProcess {
		c.process = (*C.struct_quark_process)(r.alloc(C.sizeof_struct_quark_process))
	} else {
		g := &ev.Gap
		c.gap_from, c.gap_to, c.gap_count = C.uint64_t(g.From), C.uint64_t(g.To), C.uint64_t(g.Count)
		c.gap_cause, c.gap_cpu = C.uint32_t(g.Cause), C.uint32_t(g.CPU)
	}
	writeParts(r, c, ev.Parts)
	if ofProcess {
		q.writeProcess(r, c.process, ev.Process)
	}
	if f := &ev.Failed; ev.Events.Has(quark.EventExecFailed) {
		c.exec_failed_errno = C.uint32_t(f.Errno)
		if f.PathKnown {
			c.exec_failed_path = r.text(f.Path)
			c.exec_failed_path_cached, c.exec_failed_path_truncated = flag(f.PathCached), flag(f.PathTruncated)
		}
	}
}

func writeParts(r *arena, c *C.struct_quark_event, parts []quark.Part) {
	at := r.alloc(uintptr(len(parts)) * C.sizeof_struct_quark_part)
	if c.nparts = C.size_t(len(parts)); at == nil || len(parts) == 0 {
		return
	}
	c.parts = (*C.struct_quark_part)(at)
	all := unsafe.Slice(c.parts, len(parts))
	for i := range parts {
		p, to := &parts[i], &all[i]
		to.time, to.event, to.id_change, to.cpu = C.uint64_t(p.Time), C.uint32_t(p.Kind.Events()), C.uint32_t(p.IDChange), C.uint32_t(p.CPU)
		to.uid, to.euid, to.suid = C.uint32_t(p.Cred.UID), C.uint32_t(p.Cred.EUID), C.uint32_t(p.Cred.SUID)
		to.gid, to.egid, to.sgid = C.uint32_t(p.Cred.GID), C.uint32_t(p.Cred.EGID), C.uint32_t(p.Cred.SGID)
		to.pad, to.fields_known, to.fields_cached = 0, fieldBits(p.Known), fieldBits(p.Cached&p.Known)
	}
}
