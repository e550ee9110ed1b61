package kprobe

import (
	"strconv"
	"strings"
)

// Filters, with the names of slots in braces. Only the leader of a group has an exit signal, the
// other threads have -1.
const (
	filterLeader  = "{leader}>=0"
	filterEnds    = "{dead}!=0||{leader}>=0"
	filterMayEnd  = "{live}==0||{leader}>=0"
	filterRunning = "{exiting}==0"
	filterNotExec = "{exec}==0"
)

var filterSlots = map[string]slot{
	"leader": slotExitSignal, "dead": slotGroupDead, "live": slotLive, "exiting": slotExiting, "exec": slotByExec,
}

// filterText returns a filter with the names of the fetch arguments in place of the slots.
func filterText(filter string) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(filter, "{")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		name, after, _ := strings.Cut(rest, "}")
		b.WriteString("f" + strconv.Itoa(int(filterSlots[name])))
		filter = after
	}
}
