package ebpf

import (
	"fmt"
	"testing"

	"github.com/quark-linux/quark/backends/source"
	"github.com/quark-linux/quark/fidelity/conform"
	"github.com/quark-linux/quark/internal/tinyelf"
)

func TestMain(m *testing.M) {
	conform.Main(m, map[string]func(){"dropped": readUnprivileged, "from-moved": execFromMoved, "restless": repeatAction, "reads-map": readMapEndlessly, "fails-execs": failExecs,
		"on-overlay":    execOnOverlay,
		"detached":      func() { execDetached(tinyelf.Write) },
		"wait-detached": func() { execDetached(tinyelf.WriteWaiter) }})
}

// readUnprivileged opens a source and prints the ids of its programs. Then it drops its privileges
// and reads the source until it is killed.
func readUnprivileged() {
	s, err := Open(source.Options{}, Options{})
	conform.Try("open", err)
	for _, p := range s.programs {
		info, err := p.Info()
		conform.Try("info", err)
		id, _ := info.ID()
		fmt.Print(id, " ")
	}
	conform.Dropped(s)
	fmt.Scanln()
}
