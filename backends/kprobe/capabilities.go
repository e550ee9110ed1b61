package kprobe

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/proctext"
)

// oneLine returns the text of an error, which may be several joined, in one line for a table.
func oneLine(err error) string {
	return strings.ReplaceAll(err.Error(), "\n", "; ")
}

// fieldSources lists for each field its slots, and where the kernel has them.
var fieldSources = []struct {
	field engine.Field
	via   string
	from  slot // to the next
	to    slot
}{
	{engine.FieldStart, "task.group_leader.start_boottime", slotStart, slotStart},
	{engine.FieldPPID, "task.group_leader.real_parent.tgid", slotPPID, slotPPID},
	{engine.FieldPGID, "task.signal.pids[PGID]", slotPGID, slotPGID},
	{engine.FieldSID, "task.signal.pids[SID]", slotSID, slotSID},
	{engine.FieldUIDs, "task.real_cred", slotUID, slotEGID},
	{engine.FieldSUID, "task.real_cred", slotUID, slotEGID},
	{engine.FieldGIDs, "task.real_cred", slotUID, slotEGID},
	{engine.FieldSGID, "task.real_cred", slotUID, slotEGID},
	{engine.FieldCaps, "task.real_cred", slotCapInheritable, slotCapAmbient},
	{engine.FieldTTY, "task.signal.tty", slotTTY, slotTTYIndex},
	{engine.FieldUTSNS, "task.nsproxy.uts_ns (at EXIT only if the leader ended last)", slotUTSNS, slotUTSNS},
	{engine.FieldIPCNS, "task.nsproxy.ipc_ns (at EXIT only if the leader ended last)", slotIPCNS, slotIPCNS},
	{engine.FieldMntNS, "task.nsproxy.mnt_ns (at EXIT only if the leader ended last)", slotMntNS, slotMntNS},
	{engine.FieldNetNS, "task.nsproxy.net_ns (at EXIT only if the leader ended last)", slotNetNS, slotNetNS},
	{engine.FieldComm, "task.comm", slotComm, slotComm2},
	{engine.FieldExit, "task.signal.group_exit_code or task.group_leader.exit_code", slotGroupCode, slotOwnCode},
}

// textSources lists the same for the fields with probes of their own. Where the cgroup is depends
// on the hierarchy in use, see cgroupVia.
var textSources = []struct {
	field     engine.Field
	via, rest string
	names     slot // the first of the names; 0 for arguments
}{
	{engine.FieldFilename, "task.mm.exe_file.f_path", "the front of more from /proc/PID/exe if it still lives", pathNameSlot(slotExe, 0, 0)},
	{engine.FieldCwd, "task.fs.pwd", "the front of more from /proc/PID/cwd if the process still lives", pathNameSlot(slotCwd, 0, 0)},
	{engine.FieldCgroup, "", "the front of more from /proc/PID/cgroup if it still lives", slotGroupName},
	{engine.FieldCmdline, "task.mm.arg_start", "the end of more from /proc/PID/cmdline if it still lives", 0},
}

// room returns how much of a text the probes of a set fetch, in words and as what is
// known in any case.
func (s *set) room(names slot) (string, engine.Extent) {
	if names == 0 {
		n := 0
		for _, c := range s.argv {
			if c.part >= 0 {
				n += chunkSize
			}
		}
		return fmt.Sprintf("%d bytes", n), engine.Extent{Bytes: n}
	}
	row := func(first slot, most int) (n int) {
		for n < most && s.slots.has(first+slot(n)) {
			n++
		}
		return n
	}
	if names == slotGroupName {
		n := row(names, cgroupLevels)
		return strconv.Itoa(n) + " components", engine.Extent{Names: n}
	}
	var rooms []string
	least := pathLevels
	for m := range slot(pathMounts) {
		n := row(names+m*(pathLevels+1), pathLevels)
		rooms = append(rooms, strconv.Itoa(n))
		least = min(least, n)
	}
	return strings.Join(rooms, "+") + " components in a mount and those it lies on", engine.Extent{Names: least}
}

// describe fills the capability table with what was installed.
func (s *Source) describe(in *installer, failed []error) {
	c := &s.capabilities
	c.Notes = append(c.Notes, in.notes...)
	for k := range c.Kinds {
		c.Kinds[k].Via = "no probe reports it"
	}
	c.Kinds[engine.KindGap] = engine.Capability{Origin: engine.OriginKernel, Via: "perf's lost-records and the events' counts"}
	for n, f := range families {
		k := &c.Kinds[f.kind]
		set := s.setOf(n)
		switch {
		case f.before:
		case set == nil && k.Origin == engine.OriginNone:
			k.Via = oneLine(failed[n])
		case set == nil:
			c.Notes = append(c.Notes, f.kind.String()+" is incomplete: "+oneLine(failed[n]))
		case k.Origin == engine.OriginNone:
			if failed := k.Via; f.kind == engine.KindIDChange && n != familyIDs {
				c.Notes = append(c.Notes, f.kind.String()+" is incomplete: "+failed)
			}
			*k = engine.Capability{Origin: engine.OriginKernel, Via: "kprobe/" + set.symbol}
		default:
			k.Via += ", kprobe/" + set.symbol
		}
	}
	s.describeIDs(failed)
	for _, f := range fieldSources {
		var at, without engine.Events // some kinds have several sets of probes
		for _, set := range s.sets {
			switch {
			case families[set.family].before:
			case set.slots.has(f.from) && set.slots.has(f.to):
				at |= set.kind.Events()
			default:
				without |= set.kind.Events()
			}
		}
		c.Fields[f.field] = capability(f.via, at)
		if engine.FieldsNS.Has(f.field) {
			without |= engine.EventExit
		}
		c.Fields[f.field].Partial = at & without
	}
	for _, f := range textSources {
		var at engine.Events
		room, whole := "", engine.Extent{}
		for _, set := range s.sets {
			if set.partsOf(f.field) != 0 {
				at |= set.kind.Events()
				room, whole = set.room(f.names)
			}
		}
		via := f.via
		if f.field == engine.FieldCgroup {
			via = cgroupVia[in.cgroups]
		}
		c.Fields[f.field] = capability(fmt.Sprintf("%s (%s; %s, or it is cut)", via, room, f.rest), at)
		c.Fields[f.field].Whole = whole
	}
	if in.cgroups == proctext.NoHierarchy {
		c.Fields[engine.FieldCgroup].Via = "no cgroup2 and no pids hierarchy in /proc/self/cgroup"
	}
}

// describeIDs notes how changes of ids are told from calls that change nothing.
func (s *Source) describeIDs(failed []error) {
	ids := s.setOf(familyIDs)
	if ids == nil {
		return
	}
	c := &s.capabilities
	for _, n := range []int{familyUID, familyGID} {
		set := s.setOf(n)
		switch {
		case set != nil:
			c.Kinds[engine.KindIDChange].Via += " after " + set.symbol
		case ids.ofCurrent:
			c.Notes = append(c.Notes, fmt.Sprintf("ID_CHANGE lacks the %ss: %s", families[n].name, oneLine(failed[n])))
		default:
			c.Notes = append(c.Notes, fmt.Sprintf("ID_CHANGE may come from setfs%s(2) or execve(2): %s", families[n].name, oneLine(failed[n])))
		}
	}
	if ids.ofCurrent {
		c.Notes = append(c.Notes, "ID_CHANGE of uids and gids brings ids and capabilities only: "+ids.symbol+" is not told the task")
	}
}

func capability(via string, at engine.Events) engine.Capability {
	if at == 0 {
		return engine.Capability{Origin: engine.OriginNone, Via: "the kernel's types lack what leads to it"}
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
