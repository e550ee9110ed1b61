package procpoll

import (
	"fmt"

	"github.com/quark-linux/quark/backends/internal/procfs"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
)

// capabilities returns the table, where readable is what /proc shows.
func (s *Source) capabilities(readable engine.Fields) (t engine.CapabilityTable) {
	const fork, exec, exit = engine.EventFork, engine.EventExec, engine.EventExit
	for k := range t.Kinds {
		t.Kinds[k].Via = "it is not looked for"
	}
	var reported engine.Events
	kind := func(k engine.Kind, via string) {
		if s.shared.Reports(k.Events()) {
			reported |= k.Events()
			t.Kinds[k] = engine.Capability{Origin: engine.OriginProc, Via: via, At: k.Events()}
		}
	}
	kind(engine.KindFork, "a pid or start time of before is not there; the time is the end of the tick of the start")
	kind(engine.KindExec, "another address space in /proc/PID/stat, of several execs the last one, and none of a zombie; the time is that of the reading")
	kind(engine.KindExit, "a pid is not there any more, or of a zombie; the time is that of the reading")
	t.Kinds[engine.KindExec].Partial = exec & reported
	t.Kinds[engine.KindGap] = engine.Capability{Origin: engine.OriginProc, At: engine.EventGap,
		Via: "processes in /proc/stat: tasks that were made and not seen, threads too"}
	if s.shared.Reports(engine.EventCoreDump) {
		t.Kinds[engine.KindCoreDump] = source.CoreDumps
		t.Kinds[engine.KindCoreDump].Partial = engine.EventCoreDump
		t.Kinds[engine.KindCoreDump].Via += ", where that is known"
	}
	for f := range engine.Field(engine.NumFields) {
		row := &t.Fields[f]
		switch at := (fork | exec) & reported; {
		case f == engine.FieldStart:
			*row = engine.Capability{Origin: engine.OriginProc, Via: "/proc/PID/stat", At: at | exit&reported}
		case f == engine.FieldExit && reported&exit != 0:
			*row = engine.Capability{Origin: engine.OriginProc, At: exit, Partial: exit,
				Via: "/proc/PID/stat of a zombie (Linux 6.1), or a pidfd of a process that was waited for (Linux 6.15): " +
					"of a signal that dumps core only with a core, which another thread may have dumped"}
		case readable.Has(f):
			*row = engine.Capability{Origin: engine.OriginProc, At: at, Partial: at,
				Via: "/proc/PID, as of the first reading after the event: carried, if it can change"}
		case f == engine.FieldEnviron && !s.shared.Environ.Wanted():
			*row = source.NoEnviron
		case procfs.Readable.Has(f):
			row.Via = "/proc does not show it here"
		default:
			row.Via = "/proc does not have it"
		}
	}
	t.Fields[engine.FieldCmdline].Whole.Bytes = procfs.MaxCmdline
	t.Fields[engine.FieldEnviron].Whole.Bytes = procfs.MaxCmdline
	t.Notes = append(t.Notes,
		fmt.Sprintf("/proc is read every %v: what comes and goes in between is missed, and counted in tasks, of which some may be threads, or not shown here", s.opts.Interval),
		"of processes with one pid that were started within 10 ms some are told as one",
		"an EXEC whose addresses are hidden (no CAP_SYS_PTRACE) is seen only if it is the first of its process")
	return t
}
