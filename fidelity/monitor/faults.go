package monitor

import (
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/score"
)

// Fault is a known defect of a monitor.
type Fault struct {
	Monitor  string
	Scenario string // a scenario that shows it
	What     string // description
	// Wrong returns the number of its occurrences in a score.
	Wrong func(*score.Score) int
}

// Faults returns the known defects of other monitors.
func Faults() []Fault {
	field := func(f engine.Field) func(*score.Score) int {
		return func(s *score.Score) int { return s.Fields[f].Wrong }
	}
	stamp := func(s *score.Score) int { return s.Stamp.Wrong }
	return []Fault{
		{"forkstat", "leader-first", "the leader's status", field(engine.FieldExit)},
		{"execsnoop", "fork-exec-exit", "the path for the first argument", field(engine.FieldArgs)},
		{"exitsnoop", "leader-first", "the leader's status", field(engine.FieldExit)},
		{"bpftrace", "leader-first", "the leader's end", stamp},
		{"bpftrace", "clone-parent", "who forked for the parent", field(engine.FieldPPID)},
		{"perf", "leader-first", "the leader's end", stamp},
		{"perf", "setuid", "an end at an exec", func(s *score.Score) int { return s.Duplicates }},
		{"strace", "script", "the call's arguments", field(engine.FieldArgs)},
		{"audit", "clone-parent", "who forked for the parent", field(engine.FieldPPID)},
		{"audit", "vfork", "the fork after what the child did", func(s *score.Score) int { return s.Inversions }},
		{"acct", "leader-first", "the leader's status", field(engine.FieldExit)},
	}
}
