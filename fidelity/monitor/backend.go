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

// Backend returns a monitor that runs one of quark's backends in its own process, which prints JSON
// lines like quark-mon(8). So the backend is run and scored like other programs. The error is the
// reason why the backend does not work here.
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
	// The table is the backend's, limited to the members of the format.
	opts := meter.Printing(set, m.Threads)
	q, err := quark.Open(opts)
	if err != nil {
		return nil, fmt.Errorf("open the backend: %w", err)
	}
	own := *q.Capabilities()
	for _, kind := range []engine.Kind{engine.KindNSChange, engine.KindCgroupChange, engine.KindReparent} {
		own.Kinds[kind] = engine.Capability{} // the format ignores these lines
	}
	m.Table.Kinds, m.Table.Notes, m.Table.Stamps.Ends = own.Kinds, own.Notes, own.Stamps.Ends
	m.Foreign.Early, m.Foreign.Unchanged = own.Stamps.Early, m.Foreign.Unchanged || own.SameIDs
	m.Foreign.Late = max(own.Stamps.Late, own.Stamps.Ends)
	for f := range m.Table.Fields {
		if m.Table.Fields[f].Origin != engine.OriginNone {
			m.Table.Fields[f] = own.Fields[f]
		}
	}
	return m, q.Close()
}
