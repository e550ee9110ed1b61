package kprobe

import (
	"bytes"
	"encoding/binary"

	"github.com/quark-linux/quark/engine"
)

// assembly is the samples of one event that have been read so far.
type assembly struct {
	set    *set // nil if there is no event
	count  uint64
	have   uint32 // the bits of the probes whose samples have come
	time   uint64
	cpu    uint32
	pid    uint32 // the process that hit the probe
	tid    uint32 // and its thread
	values values
}

func (a *assembly) begin(s *set, count uint64) {
	a.set, a.count, a.have = s, count, 0
	a.values.begin(s)
}

// known reports whether a slot of the first probe was fetched.
func (a *assembly) known(s slot) bool { return a.set.slots.has(s) }

func (a *assembly) knownAll(from, to slot) bool {
	for s := from; s <= to; s++ {
		if !a.known(s) {
			return false
		}
	}
	return true
}

// fill sets the numbers of ev, from the first probe.
func (a *assembly) fill(ev *engine.RawEvent) {
	v := &a.values
	ev.Kind = a.set.kind
	if ev.PID, ev.TID = v.u32(slotTGID), v.u32(slotTID); a.set.ofCurrent {
		ev.PID, ev.TID = a.pid, a.tid
	}
	ev.Thread = ev.PID != ev.TID
	ev.CPU, ev.Time = a.cpu, a.time
	a.fillTask(&ev.Task)
	if a.known(slotComm) {
		var comm [16]byte
		binary.NativeEndian.PutUint64(comm[:], v.number(slotComm))
		binary.NativeEndian.PutUint64(comm[8:], v.number(slotComm2))
		name := comm[:]
		if end := bytes.IndexByte(name, 0); end >= 0 {
			name = name[:end]
		} else {
			name = name[:15] // TASK_COMM_LEN less the NUL that always ends it
		}
		ev.Set(engine.FieldComm, name)
	}
}

func (a *assembly) fillTask(t *engine.Task) {
	v := &a.values
	know := func(f engine.Field, slots ...slot) bool {
		for _, s := range slots {
			if !a.known(s) {
				return false
			}
		}
		t.Known |= f.Set()
		return true
	}
	if know(engine.FieldStart, slotStart) {
		t.Start, t.StartUnit = v.number(slotStart), 1
	}
	if know(engine.FieldPPID, slotPPID) {
		t.PPID = v.u32(slotPPID)
	}
	if know(engine.FieldPGID, slotPGID) {
		t.PGID = v.u32(slotPGID)
	}
	if know(engine.FieldSID, slotSID) {
		t.SID = v.u32(slotSID)
	}
	if a.knownAll(slotUID, slotEGID) {
		t.Known |= engine.FieldsIDs
		t.Cred = v.credentials()
	}
	if a.knownAll(slotCapInheritable, slotCapAmbient) {
		t.Known |= engine.FieldCaps.Set()
		t.Caps = engine.Capabilities{
			Inheritable: v.number(slotCapInheritable), Permitted: v.number(slotCapPermitted),
			Effective: v.number(slotCapEffective), Bounding: v.number(slotCapBounding), Ambient: v.number(slotCapAmbient),
		}
	}
	if a.known(slotTTY) && v.number(slotTTY) == 0 {
		t.Known |= engine.FieldTTY.Set() // having no terminal is a known value
	} else if know(engine.FieldTTY, slotTTY, slotTTYMajor, slotTTYMinorStart, slotTTYIndex) {
		t.TTY = engine.TTY{Major: v.u32(slotTTYMajor), Minor: v.u32(slotTTYMinorStart) + v.u32(slotTTYIndex)}
	}
	if a.known(slotNSProxy) && v.number(slotNSProxy) != 0 { // a thread that has ended has none
		if know(engine.FieldUTSNS, slotUTSNS) {
			t.NS.UTS = v.u32(slotUTSNS)
		}
		if know(engine.FieldIPCNS, slotIPCNS) {
			t.NS.IPC = v.u32(slotIPCNS)
		}
		if know(engine.FieldMntNS, slotMntNS) {
			t.NS.Mnt = v.u32(slotMntNS)
		}
		if know(engine.FieldNetNS, slotNetNS) {
			t.NS.Net = v.u32(slotNetNS)
		}
	}
}

// fillTexts sets the texts of ev, from the other probes.
func (a *assembly) fillTexts(ev *engine.RawEvent, w *walker) {
	for _, t := range a.set.texts {
		have := a.have & t.parts
		switch t.field {
		case engine.FieldCmdline:
			a.fillArguments(ev)
		case engine.FieldCwd:
			if have == t.parts {
				a.fillPath(ev, w, t.field, slotCwd)
			}
		case engine.FieldFilename:
			if have == t.parts {
				a.fillPath(ev, w, t.field, slotExe)
			}
		case engine.FieldCgroup:
			if have == t.parts {
				a.fillCgroup(ev, w)
			}
		}
	}
}

func (a *assembly) fillPath(ev *engine.RawEvent, w *walker, f engine.Field, base slot) {
	r := w.walk(&a.values, base)
	setPath(ev, w, f, r)
}

func setPath(ev *engine.RawEvent, w *walker, f engine.Field, r pathResult) {
	if r == pathUnknown || r == pathCut && w.n == 0 {
		return
	}
	w.write(ev.Grow(f, w.length(r)))
	if r == pathCut {
		ev.Task.Truncated |= f.Set()
	}
}

func (a *assembly) fillCgroup(ev *engine.RawEvent, w *walker) {
	v := &a.values
	w.n, w.len = 0, 0
	if v.number(slotCgroup) == 0 {
		return
	}
	r := pathCut
	for level := range slot(cgroupLevels) {
		if !a.known(slotCgroup + level + 1) {
			break
		}
		if v.number(slotCgroup+level+1) == 0 {
			r = pathWhole // the topmost, whose name is no component
			break
		}
		name := v.name(slotGroupName + level)
		if len(name) == 0 {
			break
		}
		w.push(name)
	}
	setPath(ev, w, engine.FieldCgroup, r)
}

// fillArguments sets the arguments, up to the first chunk or word that is missing.
func (a *assembly) fillArguments(ev *engine.RawEvent) {
	v := &a.values
	if !a.known(slotArgStart) || !a.known(slotArgEnd) {
		return
	}
	start, end := v.number(slotArgStart), v.number(slotArgEnd)
	if start == 0 || end < start {
		return
	}
	have := v.readable(&a.set.argv, int(min(end-start, chunks*chunkSize)))
	if have == 0 && end > start {
		return
	}
	if uint64(have) < end-start {
		ev.Task.Truncated |= engine.FieldCmdline.Set()
	}
	v.arguments(&a.set.argv, ev.Grow(engine.FieldCmdline, have))
}
