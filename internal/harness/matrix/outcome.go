package matrix

import "github.com/quark-linux/quark/internal/harness/record"

// Cell is what a test on a backend did in a guest.
type Cell struct {
	Test       string       `json:"test"`
	Backend    string       `json:"backend"`
	State      record.State `json:"state"`
	Reason     string       `json:"reason,omitempty"`
	DurationMS int64        `json:"duration_ms"`
	// it ran at once with the cell before, in the same time
	Joint bool   `json:"joint,omitempty"`
	Log   string `json:"log,omitempty"`
	Repro string `json:"repro,omitempty"` // of a cell that is not good
}

// Outcome is what became of a guest. Its durations are in milliseconds of the host's clock.
type Outcome struct {
	Guest   string        `json:"guest"`
	Kernel  Kernel        `json:"kernel"`
	BTF     BTF           `json:"btf"`
	Part    Part          `json:"part,omitempty"`   // PartTests if ""
	State   record.State  `json:"state"`            // the worst of what happened
	Reason  string        `json:"reason,omitempty"` // of every state but pass
	Hello   *record.Hello `json:"hello,omitempty"`
	End     *record.End   `json:"end,omitempty"`
	Cells   []Cell        `json:"cells"`
	Console []string      `json:"console_faults,omitempty"` // what the kernel complained of
	// its last lines, if the machine went wrong, and the stacks of init that it was asked for
	Tail []string `json:"console_tail,omitempty"`
	// lines of the result port that are no records, the first of them
	Damaged []string `json:"damaged,omitempty"`
	// of an earlier run, with nothing changed since
	Cached  bool   `json:"cached,omitempty"`
	BootMS  int64  `json:"boot_ms"`        // until the hello
	FirstMS int64  `json:"first_test_ms"`  // until the first test started
	LastMS  int64  `json:"last_result_ms"` // until the last result
	TotalMS int64  `json:"total_ms"`
	Repro   string `json:"repro"`
	Log     string `json:"log"` // console log, relative to the results' directory
}

// OverheadMS is the time that is not the tests': boot to the first test, the last result to the
// end.
func (o Outcome) OverheadMS() int64 {
	if o.LastMS == 0 {
		return o.TotalMS
	}
	return o.FirstMS + o.TotalMS - o.LastMS
}

// Count returns how many cells are in each state, of one backend or of all when it is "".
func (o Outcome) Count(backend string) map[record.State]int {
	n := make(map[record.State]int)
	for _, c := range o.Cells {
		if backend == "" || c.Backend == backend {
			n[c.State]++
		}
	}
	return n
}

// ranWith returns the backends of the cells that ran at once with number i, its own included.
func ranWith(cells []Cell, i int) (backends []string) {
	first := i
	for cells[first].Joint && first > 0 {
		first--
	}
	backends = []string{cells[first].Backend}
	for _, c := range cells[first+1:] {
		if !c.Joint {
			break
		}
		backends = append(backends, c.Backend)
	}
	return backends
}
