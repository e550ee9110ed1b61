package monitor

import (
	_ "embed"
	"fmt"
	"os"

	"github.com/quark-linux/quark"
	"github.com/quark-linux/quark/backends"
	"github.com/quark-linux/quark/engine"
	"github.com/quark-linux/quark/fidelity/meter"
)

//go:embed formats/quark-mon.json
var quarkMonFormat []byte

// Backend returns the monitor that is one of quark's backends in a process of its own, which prints
// lines of JSON as quark-mon(8) does: so it is run and judged as programs of others are. The error
// says why the backend does not work here.
func Backend(name string) (*Monitor, error) {
	m, err := ParseFormat(quarkMonFormat, name)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	m.Name, m.Threads = name, backends.ReportsThreads(name)
	m.Programs, m.Environment = []string{self}, []string{meter.Printer(name)}
	set, err := backends.Parse(name)
	if err != nil {
		return nil, err
	}
	// What it can say is what the backend can, as far as the format has it.
	opts := meter.Printing(set, m.Threads)
	q, err := quark.Open(opts)
	if err != nil {
		return nil, fmt.Errorf("open the backend: %w", err)
	}
	own := *q.Capabilities()
	m.Table.Kinds, m.Table.Notes = own.Kinds, own.Notes
	m.Foreign.Early, m.Foreign.Unchanged = own.Stamps.Early, m.Foreign.Unchanged || own.SameIDs
	m.Foreign.Late = max(own.Stamps.Late, own.Stamps.Ends)
	for f := range m.Table.Fields {
		if m.Table.Fields[f].Origin != engine.OriginNone {
			m.Table.Fields[f] = own.Fields[f]
		}
	}
	return m, q.Close()
}
