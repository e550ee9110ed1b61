package kprobe

import "github.com/quark-linux/quark/engine"

// assembly collects the samples of one event.
type assembly struct {
	set    *set // nil if there is no event
	count  uint64
	have   uint32 // the bits of the probes whose sample was read
	time   uint64
	cpu    uint32
	pid    uint32 // the process that hit the probe
	tid    uint32 // the thread that hit the probe
	values values
}

func (a *assembly) begin(s *set, count uint64) {
	a.set, a.count, a.have = s, count, 0
	a.values.begin(s)
}

// known reports whether a slot of the first probe was fetched.
func (a *assembly) known(s slot) bool { return a.set.slots.has(s) }

// fill sets the numbers of ev from the first probe.
func (a *assembly) fill(ev *engine.RawEvent) {
	v := &a.values
	ev.Kind = a.set.kind
	ev.PID, ev.TID = v.u32(slotTGID), v.u32(slotTID)
	ev.Thread = ev.PID != ev.TID
	ev.CPU, ev.Time = a.cpu, a.time
	ev.Task.Known |= a.set.known
	for _, set := range a.set.numbers { // may make fields unknown again
		set(ev, v)
	}
	if ev.Thread { // the fields of the process are not the thread's
		ev.Task.Known &^= engine.FieldBirthParentTID.Set()
	}
	if a.set.kind == engine.KindExit && !a.allReleased() {
		ev.Task.Known &^= engine.FieldsUsage
	}
	// An exiting thread releases its nsproxy. A leader can do so on another CPU during the
	// reads.
	if before := v.number(slotNSProxy); before == 0 || v.number(slotNSProxyAfter) != before {
		ev.Task.Known &^= ofNSProxy
	}
	if v.number(slotPIDLevel) > pidLevels {
		ev.Task.Known &^= engine.FieldPIDNS.Set()
	}
}

// allReleased reports whether all threads of the group are released but the ending thread, and
// possibly the leader. A leader that exited last has written the group's peak memory.
func (a *assembly) allReleased() bool {
	v := &a.values
	n := v.u32(slotThreads)
	return n == 1 || n == 2 && v.u32(slotTGID) != v.u32(slotTID) && (a.known(slotGroupDead) || v.u32(slotLeaderState) != 0)
}

// ofGroup are the fields that all threads of a group share.
const ofGroup = engine.Fields(1<<engine.FieldStart | 1<<engine.FieldPPID | 1<<engine.FieldPGID | 1<<engine.FieldSID | 1<<engine.FieldTTY |
	1<<engine.FieldPIDNS)

// ofNSProxy are the namespaces that an ended thread no longer has.
const ofNSProxy = engine.FieldsNS &^ (1 << engine.FieldUserNS)

// fillThread replaces the leader's values in ev by the ending thread's.
func (a *assembly) fillThread(ev *engine.RawEvent) {
	v, t := &a.values, &ev.Task
	t.Known &= ofGroup
	if !v.slots.hasAll(slotOwnComm, slotLeaderSignal-1) {
		return
	}
	v.setComm(ev, slotOwnComm)
	t.Cred, t.Caps = v.credentials(slotOwnUID), v.capabilities(slotOwnCapInheritable)
	t.Known |= engine.FieldsIDs | engine.FieldCaps.Set()
}

// fillTexts sets the texts of ev, from the other probes.
func (a *assembly) fillTexts(ev *engine.RawEvent, w *walker) {
	for _, t := range a.set.texts {
		switch {
		case t.text == cmdline:
			a.fillArguments(ev)
		case a.have&t.parts != t.parts:
		case t.text == cgroup:
			a.fillCgroup(ev, w)
		default:
			setPath(ev, w, t.field, w.walk(&a.values, t.base))
		}
	}
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
			r = pathWhole // the topmost node, whose name is no component
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

// fillArguments sets the arguments up to the first missing chunk or word.
func (a *assembly) fillArguments(ev *engine.RawEvent) {
	v := &a.values
	if !a.known(slotArgStart) || !a.known(slotArgEnd) {
		return
	}
	start, end := v.number(slotArgStart), v.number(slotArgEnd)
	if start == 0 || end < start {
		return
	}
	have := v.readable(int(min(end-start, chunks*chunkSize)))
	if have == 0 && end > start {
		return
	}
	if uint64(have) < end-start {
		ev.Task.Truncated |= engine.FieldArgs.Set()
	}
	v.arguments(ev.Grow(engine.FieldArgs, have))
}
