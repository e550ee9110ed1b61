package monitor

import (
	"context"
	"os/exec"
	"strings"
	"time"
)

// VersionText returns the first line of the program's version output, "" if it has none.
func (m *Monitor) VersionText() string {
	list, err := m.command("")
	if len(m.Version) == 0 || err != nil {
		return ""
	}
	if len(m.Needs) > 0 {
		list[0] = m.Needs[0]
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	// forkstat prints its version only with its help, and then exits with an error.
	out, _ := exec.CommandContext(ctx, list[0], m.Version...).CombinedOutput()
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if len(line) > 80 || !strings.ContainsAny(line, "0123456789") {
		return ""
	}
	return strings.ToValidUTF8(line, "?")
}
