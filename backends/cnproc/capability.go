package cnproc

import (
	"fmt"

	"github.com/quark-linux/quark/backends/internal/nlsocket"
	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
)

// Capabilities returns what this source reports on the running kernel.
func (s *Source) Capabilities() *engine.CapabilityTable { return &s.caps }

var kindRows = [engine.NumKinds]struct {
	what What
	via  string
}{
	engine.KindFork:         {Fork, "PROC_EVENT_FORK"},
	engine.KindExec:         {Exec, "PROC_EVENT_EXEC"},
	engine.KindExit:         {Exit, "PROC_EVENT_EXIT of each thread, folded to the thread group"},
	engine.KindIDChange:     {UID | GID | SID, "PROC_EVENT_UID, PROC_EVENT_GID, PROC_EVENT_SID"},
	engine.KindSetProcTitle: {Comm, "PROC_EVENT_COMM"},
	engine.KindPtrace:       {Ptrace, "PROC_EVENT_PTRACE"},
	engine.KindGap:          {0, "numbers that miss among those of the messages, and the socket's count of what it dropped"},
	engine.KindCoreDump:     {CoreDump, "PROC_EVENT_COREDUMP, reported at the end of the process if its status has a core"},
}

const ofOthers = " of processes whose uts, ipc, mount or net namespace is not that of the first"

// fieldRows names the file below /proc/PID that each field is read from, and the events with
// messages that contain it.
var fieldRows = [engine.NumFields]struct {
	file string
	at   engine.Events
}{
	engine.FieldStart: {"stat", 0},
	engine.FieldPPID: {
		"stat; at fork, exit and core dump the kernel's message (at exit unless another thread than the leader ends last)",
		engine.EventFork | engine.EventExit | engine.EventCoreDump,
	},
	engine.FieldPGID:           {"stat; after setsid the kernel's message", engine.EventIDChange},
	engine.FieldSID:            {"stat; after setsid the kernel's message", engine.EventIDChange},
	engine.FieldUIDs:           {"status; after a change the kernel's message", engine.EventIDChange},
	engine.FieldSUID:           {"status, also after a change", 0},
	engine.FieldGIDs:           {"status; after a change the kernel's message", engine.EventIDChange},
	engine.FieldSGID:           {"status, also after a change", 0},
	engine.FieldCaps:           {"status", 0},
	engine.FieldTTY:            {"stat", 0},
	engine.FieldUTSNS:          {"ns/uts", 0},
	engine.FieldIPCNS:          {"ns/ipc", 0},
	engine.FieldMntNS:          {"ns/mnt", 0},
	engine.FieldNetNS:          {"ns/net", 0},
	engine.FieldComm:           {"stat; after a change the kernel's message", engine.EventSetProcTitle},
	engine.FieldExe:            {"exe", 0},
	engine.FieldArgs:           {"cmdline", 0},
	engine.FieldCwd:            {"cwd", 0},
	engine.FieldEnviron:        {"environ", 0},
	engine.FieldCgroup:         {"cgroup", 0},
	engine.FieldExit:           {"", engine.EventExit},
	engine.FieldParentSignal:   {"stat; at exit the kernel's message (unless another thread than the leader ends last)", engine.EventExit},
	engine.FieldBirthParentTID: {"", engine.EventFork},
	engine.FieldExeFile:        {"exe, by statx(2)", 0},
	engine.FieldPIDNS:          {"status and ns/pid", 0},
	engine.FieldUserNS:         {"ns/user" + ofOthers, 0},
	engine.FieldCgroupNS:       {"ns/cgroup" + ofOthers, 0},
	engine.FieldTimeNS:         {"ns/time" + ofOthers, 0},
	engine.FieldLogin:          {"{loginuid,sessionid} of session leaders, else of who forked the process", 0},
}

// endDelay is how late, in ns, the message of an end was seen at most on a machine with much load.
const endDelay = 2_000_000_000

func (s *Source) capabilities() (t engine.CapabilityTable) {
	var reported engine.Events
	for k, row := range kindRows {
		at := engine.Kind(k).Events()
		if k != int(engine.KindGap) && !s.shared.Reports(at) {
			continue
		}
		if row.via == "" {
			t.Kinds[k].Via = "the kernel sends no message"
			continue
		}
		reported |= at
		t.Kinds[k] = engine.Capability{Origin: engine.OriginKernel, Via: row.via, At: at}
	}
	for f := range engine.Field(engine.NumFields) {
		row := &t.Fields[f]
		row.At = fieldRows[f].at & reported
		switch {
		case s.opts.Enrich == EnrichFull && s.proc.Readable().Has(f):
			row.At |= (engine.EventFork | engine.EventExec) & reported
			if f == engine.FieldSUID || f == engine.FieldSGID {
				row.At |= engine.EventIDChange & reported
			}
			if s.failuresOnly() && ofZombie.Has(f) {
				row.At |= engine.EventExit
			}
			row.Origin = engine.OriginProc
			row.Via = "/proc/PID/" + fieldRows[f].file + "; as of right after the event, if it lives so long"
		case row.At != 0:
			row.Origin, row.Via = engine.OriginKernel, "proc_event"
		case f == engine.FieldExecPath:
			row.Via = "it is in the memory of the process alone, which is not read"
		case engine.FieldsUsage.Has(f):
			row.Via = "the kernel's message has no such field"
		case f == engine.FieldEnviron && !s.shared.Environ.Wanted():
			*row = source.NoEnviron
		case s.opts.Enrich == EnrichFull && f == engine.FieldLogin:
			row.Via = "the kernel has no CONFIG_AUDIT"
		case s.opts.Enrich == EnrichFull && engine.FieldsNS.With(engine.FieldPIDNS).Has(f):
			row.Via = "the kernel has no such namespaces"
		case s.opts.Enrich == EnrichFull && procfs.Readable.Has(f):
			row.Via = "this process is in a cgroup namespace of its own, in which /proc shows other paths than the host's"
		default:
			row.Via = "the kernel's message has no such field, and /proc is not read"
		}
	}
	// The last thread reports the end to the parent, then removes its entries from the cache
	// of /proc, where it can be preempted, and then sends its message. UID and GID messages
	// come for setfsuid(2) and setfsgid(2), too.
	t.Stamps.Ends, t.SameIDs = endDelay, true
	t.Fields[engine.FieldArgs].Whole.Bytes = procfs.MaxCmdline
	t.Fields[engine.FieldEnviron].Whole.Bytes = procfs.MaxCmdline
	t.Fields[engine.FieldExit].Via = "exit_code of the threads, or /proc/PID/stat of a process not waited for yet (Linux 6.1); " +
		"unknown where its threads ended with statuses that leave it open, and of the first process of a pid namespace"
	t.Fields[engine.FieldExit].Unproven = engine.UnprovenSignal | engine.UnprovenReboot | engine.UnprovenLateReboot
	t.Fields[engine.FieldExit].Partial = engine.EventExit
	t.Fields[engine.FieldPPID].Partial = engine.EventExit
	t.Fields[engine.FieldLogin].At &= engine.EventExec
	t.Fields[engine.FieldLogin].Partial = t.Fields[engine.FieldLogin].At
	t.Fields[engine.FieldParentSignal].Partial = engine.EventExit
	for _, f := range []engine.Field{engine.FieldUserNS, engine.FieldCgroupNS, engine.FieldTimeNS} {
		t.Fields[f].Partial = t.Fields[f].At
	}
	t.Notes = append(t.Notes, "the status is not that of the parent where a fatal signal meets exit(2), which libraries do not call, "+
		"and where reboot(2) ends a pid namespace whose first process was not read")
	if s.opts.Enrich == EnrichFull {
		t.Notes = append(t.Notes, "what is read from /proc is cached, but for start and pid namespace, which never change")
	}
	if reported&engine.EventIDChange != 0 {
		t.Notes = append(t.Notes, "a change of user ids carries the group ids: an exec changes both in two messages")
	}
	if s.proc == nil {
		t.Notes = append(t.Notes, "no /proc: processes that had threads before the source was opened may be reported as ended with their leader")
	}
	if want := s.kernelFilter(); want != allKinds {
		if s.filtered {
			t.Notes = append(t.Notes, fmt.Sprintf("the kernel delivers only the kinds 0x%x", uint32(want)))
		} else {
			t.Notes = append(t.Notes, "the kernel has no event filter (Linux 6.6): kinds are left out in user space")
		}
	}
	if s.silence.counts {
		t.Notes = append(t.Notes, "before Linux 6.6 any program with CAP_NET_ADMIN can end the kernel's messages to all: "+
			"that is told as a gap after 5 s without any, and mended if that capability is left")
	}
	if !s.track.groups.last6 {
		t.Notes = append(t.Notes, "before Linux 6.0 the exit status of a process whose leader ended first is not always known")
	}
	if s.track.spreads {
		t.Notes = append(t.Notes, "before Linux 5.16 the exit status of a process that ends while another one dumps core is not known")
		dumps := &t.Kinds[engine.KindCoreDump]
		if dumps.Origin != engine.OriginNone {
			dumps.Partial = engine.EventCoreDump
			dumps.Via += "; not that of a process whose last thread seccomp(2) ends (KILL_THREAD): before Linux 5.16 nothing tells it, nor the exit status"
		}
	}
	return t
}

// Stats returns the counters. Loss is counted in two ways, and the larger figure is reported. The
// socket counts the messages that it drops, at once. Gaps in the sequence numbers also show
// messages that the kernel had no memory to send, but only once later messages arrive.
func (s *Source) Stats() (engine.SourceStats, error) {
	st := engine.SourceStats{Bound: s.silence.fell}
	s.loss.dropped = s.drops()
	st.Lost[engine.LossSocketFull] = s.loss.total()
	st.Lost[engine.LossDecode] = s.decode
	st.Unread = s.unread
	if s.proc != nil {
		st.Blocked = s.proc.Blocked()
	}
	st.Produced = s.handed + st.LostTotal()
	return st, nil
}

// drops asks the socket how many messages it dropped.
func (s *Source) drops() uint64 {
	if s.fd < 0 {
		return s.loss.dropped
	}
	return uint64(nlsocket.Drops(s.fd) - s.dropsBase)
}
