package soak

import (
	"fmt"
	"iter"

	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/internal/proctext"
)

// table is a queue that shows its table of processes.
type table interface {
	Processes() iter.Seq[*engine.Process]
}

// unswept is how many processes that have ended may be in the table of a source that does not
// report every EXIT: the engine looks for them when there are more.
const unswept = 1024

// every reports whether a source reports every EXIT.
func every(c *engine.CapabilityTable) bool {
	exit := c.Kinds[engine.KindExit]
	return exit.Origin != engine.OriginNone && exit.Partial == 0
}

// ended returns the processes of a table that are no more.
func ended(t table) map[engine.Identity]bool {
	list := make(map[engine.Identity]bool)
	for p := range t.Processes() {
		// Without a start time it is whoever has the pid.
		if st, err := proctext.ReadStat(fmt.Sprintf("/proc/%d/stat", p.PID)); err != nil || p.Known.Has(engine.FieldStart) && st.Start != p.Start-p.Start%proctext.Tick {
			list[engine.Identity{PID: p.PID, Start: p.Start}] = true
		}
	}
	return list
}

// kept returns how many of the processes are still in the table.
func kept(t table, list map[engine.Identity]bool) (n int64) {
	for p := range t.Processes() {
		if list[engine.Identity{PID: p.PID, Start: p.Start}] {
			n++
		}
	}
	return n
}
