package taskstats

import (
	"github.com/quark-linux/quark/backends/internal/taskrecord"
	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/engine"
)

// missing says why the record of an end does not bring a field.
var missing = map[engine.Field]string{
	engine.FieldStart:      "the record has it in whole seconds",
	engine.FieldUIDs:       "the record has the real id alone",
	engine.FieldGIDs:       "the record has the real id alone",
	engine.FieldExecutable: "the record has device and inode alone (Linux 5.19)",
}

func (s *Source) capabilities() (t engine.CapabilityTable) {
	const end = engine.EventExit
	for k := range t.Kinds {
		t.Kinds[k].Via = "taskstats reports ends alone"
	}
	t.Kinds[engine.KindGap] = engine.Capability{Origin: engine.OriginKernel,
		Via: "each socket's count of what it dropped, and numbers that miss among those of the records", At: engine.EventGap}
	for f := range engine.Field(engine.NumFields) {
		if t.Fields[f].Via = missing[f]; t.Fields[f].Via == "" {
			t.Fields[f].Via = "the record of an end does not have it"
		}
	}
	if s.shared.Reports(engine.EventCoreDump) {
		t.Kinds[engine.KindCoreDump] = source.CoreDumps
		t.Kinds[engine.KindCoreDump].At, t.Kinds[engine.KindCoreDump].Partial = engine.EventCoreDump, engine.EventCoreDump
		t.Kinds[engine.KindCoreDump].Via += ", where that is known"
	}
	if !s.shared.Reports(end) {
		return t
	}
	exit := &t.Kinds[engine.KindExit]
	*exit = engine.Capability{Origin: engine.OriginKernel, Via: "taskstats of the last thread; the time is that of the receipt", At: end}
	if !s.kernel.Marked {
		exit.Partial = end
		exit.Via += "; before Linux 5.19 not of processes with status 0 that had one thread, have executed and were waited for at once"
	}
	brings := func(f engine.Field, via string) {
		t.Fields[f] = engine.Capability{Origin: engine.OriginKernel, Via: via, At: end, Partial: end}
	}
	brings(engine.FieldExit, "taskstats.ac_exitcode; unknown where threads ended with statuses that leave it open")
	brings(engine.FieldPPID, "taskstats.ac_ppid; not of an end whose parent is gone already")
	brings(engine.FieldComm, "taskstats.ac_comm; unknown where another thread than the leader ends last")
	for f, via := range taskrecord.UsageVia {
		if why := s.kernel.Lacks(f); why != "" {
			t.Fields[f].Via = why
			continue
		}
		brings(f, via)
	}
	if !s.kernel.Marked {
		t.Notes = append(t.Notes, "before Linux 5.19 the wait status of a process that had several threads is known of some signals alone")
	}
	if s.spreads {
		t.Notes = append(t.Notes, "before Linux 5.16 a core dump sets the wait status of all that share the memory, also of one that ends with another: it is carried")
	}
	if s.proc == nil {
		t.Notes = append(t.Notes, "no /proc: it is not seen which threads a process still has, so that the wait status of one that had several is known of some signals alone")
	}
	return t
}
