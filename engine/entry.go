package engine

import (
	"math"
	"strings"
)

// EntryType is the way in which an entry leader entered the system, and its descendants with it.
type EntryType uint8

// The ways of entry.
const (
	EntryUnknown   EntryType = iota
	EntryInit                // started by process 1, which is the leader
	EntryKThread             // kernel threads; the leader is kthreadd, process 2
	EntrySSHD                // a session of sshd
	EntrySSM                 // a session of the AWS Systems Manager's agent
	EntryContainer           // the first process of a container
	EntryTerminal            // a login on a console or a serial line
)

func (t EntryType) String() string {
	return nameOf(t, "unknown", "init", "kthread", "sshd", "ssm", "container", "terminal")
}

// A process inherits its entry leader from its parent at birth. A session leader that executes a
// program becomes an entry leader itself if ownEntry reports a type. The process stores the
// leader's identity, which stays valid after the leader's end and the reuse of its pid. For
// processes older than the source the same rule is applied to /proc, where the parent may not be
// the parent at birth. Therefore their entry leaders are cached, except for process 1 and kernel
// threads.

// Prefixes of the names of programs that start containers or wait in them.
var (
	runtimes = []string{"containerd-shim", "runc", "conmon"}
	helpers  = append([]string{"calico-node", "check-status", "pause"}, runtimes...)
)

func beginsWith(name string, any []string) bool {
	for _, prefix := range any {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

func fileName(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

func isSSHD(name string) bool { return name == "sshd" || strings.HasPrefix(name, "sshd-") }

// ownEntry returns the type by which p, a session leader, becomes an entry leader, or EntryUnknown
// if p keeps its entry leader. parent is the name of its parent's program.
func (p *process) ownEntry(parent string) EntryType {
	name := fileName(p.Exe)
	const serial = 64 // the first minor number after the consoles
	terminal := p.TTY.Major == 4 && (p.TTY.Minor >= serial || name == "login")
	pseudo := p.TTY.Major >= 136 && p.TTY.Major <= 143
	switch {
	case terminal:
		return EntryTerminal
	case beginsWith(name, helpers):
		return EntryUnknown
	case pseudo && parent == "ssm-session-worker":
		return EntrySSM
	case isSSHD(parent) && !isSSHD(name):
		return EntrySSHD
	case beginsWith(parent, runtimes):
		return EntryContainer
	}
	return EntryUnknown
}

// entersContainer reports whether p, a session leader, is in a container that its parent is not in.
// Both cgroups have to be known.
func (p *process) entersContainer(parent *process) (enters, known bool) {
	own, known := p.container()
	if !known || own.ID == "" {
		return false, known
	}
	of, known := parent.container()
	own.Inside, of.Inside = "", ""
	return own != of && !beginsWith(fileName(p.Exe), helpers), known
}

// setEntry makes p an entry leader.
func (p *process) setEntry(by EntryType, cached bool) {
	p.entry = entry{Identity{p.PID, p.Start}, by}
	p.markEntry(p.Known.Has(FieldStart), cached)
}

func (p *process) markEntry(known, cached bool) {
	p.Known &^= FieldEntryLeader.Set()
	p.Cached &^= FieldEntryLeader.Set()
	if known {
		p.Known |= FieldEntryLeader.Set()
		if cached {
			p.Cached |= FieldEntryLeader.Set()
		}
	}
}

// entersItself reports whether p became its own entry leader after its birth.
func (p *process) entersItself() bool {
	return p.entry.leader.PID == p.PID && p.entry.by > EntryKThread
}

// inheritEntry gives p the entry leader that its parent had at time. parent is nil if it is
// uncertain.
func (p *process) inheritEntry(parent *process, time uint64) {
	if parent == nil || !parent.Known.Has(FieldEntryLeader) || parent.entersItself() && time < parent.since {
		p.markEntry(false, false)
		return
	}
	p.entry = parent.entry
	p.markEntry(true, parent.Cached.Has(FieldEntryLeader))
}

// decideEntry decides whether p became an entry leader by its exec at time.
func (t *table) decideEntry(p *process, time uint64) {
	leads, known, cached := t.leadsSession(p)
	switch {
	case p.PID == 1:
		return
	case !known:
		p.markEntry(false, false)
		return
	case !leads:
		if cached && p.Known.Has(FieldEntryLeader) {
			p.Cached |= FieldEntryLeader.Set()
		}
		return
	}
	const needed = Fields(1<<FieldPPID | 1<<FieldTTY | 1<<FieldExe)
	parent := t.parentAt(p.PPID, p, time)
	if p.Known&needed != needed || parent == nil || parent.Known&FieldExe.Set() == 0 || time < parent.since {
		p.markEntry(false, false)
		return
	}
	cached = p.Cached&needed != 0 || parent.since <= t.gapTo
	by := p.ownEntry(fileName(parent.Exe))
	if by == EntryUnknown {
		enters, known := p.entersContainer(parent)
		if !known && t.cgroups {
			p.markEntry(false, false)
			return
		}
		// The parent's cgroup may be of another time.
		if own, _ := p.container(); own.ID != "" || p.Cached.Has(FieldCgroup) {
			cached = true
		}
		if enters {
			by = EntryContainer
		}
	}
	if by != EntryUnknown {
		p.setEntry(by, cached || t.unseen.Has(FieldEntryLeader))
	} else if cached && p.Known.Has(FieldEntryLeader) {
		p.Cached |= FieldEntryLeader.Set()
	}
}

// leadsSession reports whether p leads a session. cached is set if p may have become the leader
// without an event.
func (t *table) leadsSession(p *process) (leads, known, cached bool) {
	switch {
	case p.Known.Has(FieldSID) && p.SID == p.PID: // for good
		return true, true, false
	case p.Known.Has(FieldSID) && !p.Cached.Has(FieldSID), !p.Known.Has(FieldSID) && p.birth.from == fromFork && p.born > t.gapTo && !t.unseen.Has(FieldSID):
		return false, true, false
	}
	return false, p.Known.Has(FieldSID), true
}

// settleEntries decides the entry leaders of the learned processes, parents before their children.
func (t *table) settleEntries() {
	if t.learned == nil {
		return
	}
	waiting := make(map[*process]bool, len(t.learned))
	for _, p := range t.learned {
		waiting[p] = true
	}
	var settle func(p *process)
	settle = func(p *process) {
		if waiting[p] {
			delete(waiting, p)
			settle(t.byPID.get(p.PPID))
			t.settleEntry(p)
			if t.judge != nil {
				t.settleMarks(p)
			}
		}
	}
	for _, p := range t.learned {
		settle(p)
	}
	t.learned = nil
}

// settleEntry decides the entry leader of a process from /proc, after the entry leader of its
// parent.
func (t *table) settleEntry(p *process) {
	switch parent := t.byPID.get(p.PPID); {
	case p.Known.Has(FieldEntryLeader):
	case p.PID == 1:
		p.setEntry(EntryInit, false)
	case !p.Known.Has(FieldPPID):
	case p.PID == 2 && p.PPID == 0:
		p.setEntry(EntryKThread, false)
	case parent == nil || parent == p:
	default:
		p.inheritEntry(parent, math.MaxUint64)
		t.decideEntry(p, math.MaxUint64)
	}
	if p.entry.by > EntryKThread || p.entry.by == EntryInit && p.PID != 1 {
		p.markEntry(p.Known.Has(FieldEntryLeader), true)
	}
}

// addDerived adds the rows of the fields that the engine derives.
func (t *CapabilityTable) addDerived() {
	t.addEntry()
	row := &t.Fields[FieldPrivileges]
	*row = Capability{Origin: OriginDerived, Via: "at EXEC from exe_file, ids, those of before, caps and user_ns", At: EventExec}
	if !t.IDsBefore {
		*row = Capability{Via: "it needs the ids of before the EXEC"}
	}
	for _, f := range []Field{FieldExeFile, FieldUIDs, FieldGIDs, FieldCaps, FieldUserNS} {
		if !t.Fields[f].Brings(EventExec) {
			*row = Capability{Via: "it needs " + f.String() + " from the kernel at EXEC"}
		}
	}
}

// addEntry adds the row of the entry leader, which every source that reports births has.
func (t *CapabilityTable) addEntry() {
	row := &t.Fields[FieldEntryLeader]
	if !t.all(KindFork) || t.Kinds[KindExec].Origin == OriginNone {
		*row = Capability{Via: "it needs FORK and EXEC"}
		return
	}
	*row = Capability{Origin: OriginDerived, Via: "inherited; at EXEC from sid, tty, ppid, filename and cgroup", At: EventFork | EventExec}
	for _, f := range []Field{FieldSID, FieldTTY, FieldPPID, FieldExe, FieldCgroup} {
		if t.SplitRecords || !t.Fields[f].Brings(EventExec) {
			row.Partial = row.At
		}
	}
}
