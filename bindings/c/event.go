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

// layEvent writes ev, then its process and parts, then their texts.
func (q *queue) layEvent(r *room, ev *quark.Event) {
	var measured C.struct_quark_event
	c := (*C.struct_quark_event)(r.take(C.sizeof_struct_quark_event))
	if c == nil {
		c = &measured
	}
	*c = C.struct_quark_event{
		events: C.uint64_t(ev.Events), id_change: C.uint32_t(ev.IDChange),
		time: C.uint64_t(q.wall + int64(ev.Time)), time_monotonic: C.uint64_t(ev.Time),
		cpu: C.uint32_t(ev.CPU), tid: C.uint32_t(ev.TID), thread: C.uint32_t(flag(ev.Thread)),
		tracer_pid: C.uint32_t(ev.Tracer.PID), tracer_tid: C.uint32_t(ev.Tracer.TID),
	}
	ofProcess := !ev.Events.Has(quark.EventGap)
	if ofProcess {
		c.process = (*C.struct_quark_process)(r.take(C.sizeof_struct_quark_process))
	} else {
		g := &ev.Gap
		c.gap_from, c.gap_to, c.gap_count = C.uint64_t(g.From), C.uint64_t(g.To), C.uint64_t(g.Count)
		c.gap_cause, c.gap_cpu = C.uint32_t(g.Cause), C.uint32_t(g.CPU)
	}
	layParts(r, c, ev.Parts)
	if ofProcess {
		q.layProcess(r, c.process, ev.Process)
	}
	if f := &ev.Failed; ev.Events.Has(quark.EventExecFailed) {
		c.exec_errno = C.uint32_t(f.Errno)
		if f.PathKnown {
			c.exec_failed_path = r.text(f.Path)
			c.exec_path_carried, c.exec_path_cut = flag(f.PathCarried), flag(f.PathCut)
		}
	}
}

func layParts(r *room, c *C.struct_quark_event, parts []quark.Part) {
	at := r.take(uintptr(len(parts)) * C.sizeof_struct_quark_part)
	if c.nparts = C.size_t(len(parts)); at == nil || len(parts) == 0 {
		return
	}
	c.parts = (*C.struct_quark_part)(at)
	for i, to := range unsafe.Slice(c.parts, len(parts)) {
		p := &parts[i]
		to = C.struct_quark_part{
			time: C.uint64_t(p.Time), event: C.uint32_t(p.Kind.Events()), id_change: C.uint32_t(p.IDChange), cpu: C.uint32_t(p.CPU),
			uid: C.uint32_t(p.Cred.UID), euid: C.uint32_t(p.Cred.EUID), suid: C.uint32_t(p.Cred.SUID),
			gid: C.uint32_t(p.Cred.GID), egid: C.uint32_t(p.Cred.EGID), sgid: C.uint32_t(p.Cred.SGID),
			fields_known: bits(p.Known), fields_carried: bits(p.Carried & p.Known),
		}
		unsafe.Slice(c.parts, len(parts))[i] = to
	}
}
