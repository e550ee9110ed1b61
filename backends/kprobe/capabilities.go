package kprobe

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/proctext"
)

// room returns the length up to which the probes of a set can fetch a text: as words for the user,
// and as the extent that is always known.
func (s *set) room(t *text) (string, engine.Extent) {
	row := func(first slot, most int) (n int) {
		for n < most && s.slots.has(first+slot(n)) {
			n++
		}
		return n
	}
	switch t {
	case cmdline:
		n := row(slotArgv, chunks) * chunkSize
		return fmt.Sprintf("%d bytes", n), engine.Extent{Bytes: n}
	case cgroup:
		n := row(slotGroupName, cgroupLevels)
		return strconv.Itoa(n) + " components", engine.Extent{Names: n}
	}
	var rooms []string
	least := pathLevels
	for m := range pathMounts {
		n := row(pathNameSlot(t.base, m, 0), pathLevels)
		rooms = append(rooms, strconv.Itoa(n))
		least = min(least, n)
	}
	return strings.Join(rooms, "+") + " components in a mount and its parent mounts", engine.Extent{Names: least}
}

// describe fills the capability table from the installed probes.
func (s *Source) describe(in *installer, failed []error) {
	c := &s.capabilities
	c.SplitRecords = true
	c.Notes = append(c.Notes, in.notes...)
	s.describeKinds(failed)
	c.Kinds[engine.KindCoreDump] = source.CoreDumps
	s.describeExecs(failed)
	c.Fields[engine.FieldEnviron].Via = "the probes do not read the environment"
	c.SameIDs = s.setOf(familyIDs) != nil // by calls of setfsuid(2) and setfsgid(2)
	for _, n := range numberSources {
		var at, without engine.Events // some kinds have several sets of probes
		for _, set := range s.sets {
			switch {
			case families[set.family].before, set.silent:
			case set.slots.hasAll(n.from, n.to):
				at |= s.eventsWith(set, n.fields)
			default:
				without |= set.kind.Events()
			}
		}
		if ofNSProxy&n.fields != 0 {
			without |= engine.EventExit | engine.EventCoreDump
		}
		if engine.FieldsUsage&n.fields != 0 {
			without |= engine.EventExit
		}
		for f := range engine.Field(engine.NumFields) {
			if n.fields.Has(f) {
				c.Fields[f] = capability(n.via, at)
				c.Fields[f].Partial = at & without
			}
		}
	}
	if k := &c.Kinds[engine.KindNSChange]; k.Origin != engine.OriginNone {
		k.Via += "; not of user namespaces, as its function does not have the task"
		k.Omits = engine.OmitUserNS
	}
	if exit := s.setOf(familyExit); exit != nil && exit.slots.hasAll(slotChildren, slotSubreapers) {
		c.Kinds[engine.KindReparent] = engine.Capability{Origin: engine.OriginKernel, Via: "the EXIT of the parent: task.children (ppid is unknown below a subreaper, and in a pid namespace)"}
		c.Fields[engine.FieldPPID].At |= engine.EventReparent
		c.Fields[engine.FieldPPID].Partial |= engine.EventReparent
	}
	for _, t := range []*text{filename, cwd, cgroup, cmdline} {
		var at engine.Events
		room, whole := "", engine.Extent{}
		for _, set := range s.sets {
			if set.text(t) != nil {
				at |= set.kind.Events()
				room, whole = set.room(t)
			}
		}
		via := cmp.Or(t.via, cgroupVia[in.cgroups])
		c.Fields[t.field] = capability(fmt.Sprintf("%s (%s; %s, or it is cut)", via, room, t.rest), at)
		c.Fields[t.field].Whole = whole
	}
	c.Fields[engine.FieldExit].Unproven = engine.UnprovenLateReboot
	if exit := s.setOf(familyExit); exit != nil && !exit.slots.has(slotReboots) {
		x := &c.Fields[engine.FieldExit]
		x.Via += " (unknown for a SIGKILL in a pid namespace)"
		x.Partial = x.At
	}
	exec := s.setOf(familyExec)
	c.IDsBefore = exec != nil && exec.slots.has(slotBeforeUID)
	if x := &c.Fields[engine.FieldExeFile]; slices.ContainsFunc(s.sets, func(set *set) bool { return set.slots.has(slotExeMagic) }) {
		x.Via += source.OverlayInodes
		x.Partial = x.At
	}
	if in.warns {
		c.Fields[engine.FieldStdio].Via = "the probes would read before the inodes of files that are no sockets, of which the kernel may warn (before Linux 5.8)"
		c.Fields[engine.FieldPIDNS].Via = "the probes would read at invalid addresses for levels that a process does not have, of which the kernel warns (before Linux 5.8)"
	}
	c.Fields[engine.FieldExecPath].Via = "a record has no room for the longest path"
	if in.cgroups == proctext.NoHierarchy {
		c.Fields[engine.FieldCgroup].Via = "no cgroup2 and no pids hierarchy in /proc/self/cgroup"
	}
}

// describeKinds fills in the reported kinds of event. If one of several families of a kind is
// missing, some events of the kind are not reported. Then a field that they change may be outdated.
func (s *Source) describeKinds(failed []error) {
	c := &s.capabilities
	for k := range c.Kinds {
		c.Kinds[k].Via = "no probe reports it"
	}
	c.Kinds[engine.KindGap] = engine.Capability{Origin: engine.OriginKernel, Via: "perf's lost-records and the events' counts"}
	for n, f := range families {
		k := &c.Kinds[f.kind]
		set := s.setOf(n)
		switch {
		case f.before, !s.shared.Reports(f.kind.Events()):
		case set == nil && n == familyPGID:
			k.Omits = engine.OmitPGID
			c.Notes = append(c.Notes, "ID_CHANGE does not report setpgid(2): "+source.OneLine(failed[n]))
		case set == nil && k.Origin == engine.OriginNone:
			k.Via = source.OneLine(failed[n])
		case set == nil:
			c.Notes = append(c.Notes, f.kind.String()+" is incomplete: "+source.OneLine(failed[n]))
			k.Partial = f.kind.Events()
		case k.Origin == engine.OriginNone:
			var partial engine.Events
			if failed := k.Via; f.kind == engine.KindIDChange && n != familyIDs {
				c.Notes = append(c.Notes, f.kind.String()+" is incomplete: "+failed)
				partial = f.kind.Events()
			}
			*k = engine.Capability{Origin: engine.OriginKernel, Via: "kprobe/" + set.symbol, Partial: partial}
		default:
			k.Via += ", kprobe/" + set.symbol
		}
	}
}

// eventsWith returns the kinds of event that have fields from the probes of a set. A CORE_DUMP has
// all fields of an EXIT except the status.
func (s *Source) eventsWith(set *set, fields engine.Fields) engine.Events {
	at := set.kind.Events()
	if set.family == familyExit && !fields.Has(engine.FieldExit) && fields&engine.FieldsUsage == 0 {
		at |= engine.EventCoreDump
	}
	if s.shared.Kinds != 0 {
		at &= s.shared.Kinds
	}
	return at
}

// describeExecs describes how the probes find failed execs.
func (s *Source) describeExecs(failed []error) {
	k := &s.capabilities.Kinds[engine.KindExecFailed]
	if k.Origin == engine.OriginNone {
		return
	}
	k.Via = "tracepoint/syscalls/sys_{enter,exit}_{execve,execveat}, which slow all syscalls down a little, and kprobe/" +
		s.setOf(familyExecNoReturn).symbol + "; not of 32-bit programs"
	k.Partial = engine.EventExecFailed
	if set := s.setOf(familyExecPath); set == nil {
		k.Via += "; each path is unknown: " + source.OneLine(failed[familyExecPath])
	} else {
		k.Via += "; kprobe/" + set.symbol + ": a path is unknown if it is empty, longer than a path can be, or of a user with too many processes"
	}
}

func capability(via string, at engine.Events) engine.Capability {
	if at == 0 {
		return engine.Capability{Origin: engine.OriginNone, Via: "the kernel's types lack a member on the way to it"}
	}
	return engine.Capability{Origin: engine.OriginKernel, Via: via, At: at}
}

func (s *Source) setOf(family int) *set {
	for _, set := range s.sets {
		if set.family == family {
			return set
		}
	}
	return nil
}
