package matrix

import (
	"slices"

	"github.com/quark-linux/quark/internal/harness/record"
)

// Cell is the outcome of a test on a backend in a guest.
type Cell struct {
	record.Result
	Repro string `json:"repro,omitempty"` // command that repeats a failed cell
}

// Outcome is the outcome of a guest. Its duration is in milliseconds of the host's clock.
type Outcome struct {
	Guest   string        `json:"guest"`
	Kernel  Kernel        `json:"kernel"`
	BTF     BTF           `json:"btf"`
	Part    Part          `json:"part"`
	State   record.State  `json:"state"`            // worst state of the guest and its cells
	Reason  string        `json:"reason,omitempty"` // empty if the state is pass
	Hello   *record.Hello `json:"hello,omitempty"`
	End     *record.End   `json:"end,omitempty"`
	Cells   []Cell        `json:"cells"`
	Console []string      `json:"console_faults,omitempty"` // complaints of the kernel
	Tail    []string      `json:"console_tail,omitempty"`   // last lines, stacks of init
	Damaged []string      `json:"damaged,omitempty"`        // lines that are not records
	Cached  bool          `json:"cached,omitempty"`         // from an earlier run
	TotalMS int64         `json:"total_ms"`
	Repro   string        `json:"repro"`
	Log     string        `json:"log"` // console log, relative to the results' directory
}

// Count returns the number of cells in each state, of one backend or, if backend is "", of all.
func (o Outcome) Count(backend string) map[record.State]int {
	n := make(map[record.State]int)
	for _, c := range o.Cells {
		if backend == "" || c.Backend == backend {
			n[c.State]++
		}
	}
	return n
}

// explained reports whether a cell shows the fault of the guest.
func (o Outcome) explained() bool {
	return slices.ContainsFunc(o.Cells, func(c Cell) bool { return !c.State.Good() })
}
